"""How well does a model predict what comes next? One-step-ahead evaluation.

Every sample of a stream is a test before it is a lesson: the model predicts it, the
error is recorded, then the model learns it (Gijsberts 2011, section 5.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

from sklearn.base import clone

from tiercel.stream._prequential.gate import Gate
from tiercel.stream._prequential.models import contender, is_river
from tiercel.stream._prequential.report import Figures, PrequentialReport, Repeats
from tiercel.stream._prequential.run import run
from tiercel.stream._prequential.samples import Samples
from tiercel.stream._prequential.summary import make_report
from tiercel.stream._prequential.tally import Tally

__all__ = [
    "Figures",
    "PrequentialReport",
    "Repeats",
    "prequential",
    "prequential_repeats",
]


def prequential(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    detector: Any = None,
    window: int = 500,
    n_points: int = 200,
    baselines: bool = True,
    neighbours: int = 2000,
    output_names: Sequence[str] | None = None,
    classes: Any = None,
    keep_predictions: bool = True,
    on_error: str = "raise",
) -> PrequentialReport:
    """Predict each sample of a stream, record the error, then learn the sample.

    Parameters
    ----------
    model : object
        Any of

        - a streaming learner of Tiercel: ``predict_update(x, y)``, which returns the
          prediction or a pair (mean, standard deviation), or ``predict_one(x)`` and
          ``learn_one(x, y)``;
        - an estimator with ``predict`` and ``partial_fit`` on matrices, as in
          scikit-learn;
        - a fitted model with ``predict`` alone, which stays as it is;
        - a River model; its inputs are dicts.

        It goes on learning from where it stands, and is changed. A prediction of None
        is no answer, and is left out of the means.
    X : array (n, d), or iterable of pairs (x, y)
    y : array (n,) or (n, T), optional
        Floats are regression targets. Anything else are class labels, unless the model
        calls itself a regressor; so are floats if it calls itself a classifier.
    detector : object, optional
        What judges the residuals, such as `ChangeDetector`: the model learns a sample
        only if ``detector.update(residuals)`` returns False. A residual is divided by
        the standard deviation that the model predicts, or else by the root mean square
        of all errors before it, of which there must be 30. The detector is changed too.
    window : int, default=500
        Samples that the windowed figures cover.
    n_points : int, default=200
        Points of the curves, at most.
    baselines : bool, default=True
        Report also persistence (y of the sample before) and the nearest neighbour.
    neighbours : int, default=2000
        The nearest neighbour is looked for among this many of the last samples, with
        inputs divided by their standard deviation so far.
    output_names : sequence of str, optional
    classes : array, optional
        All labels, for a scikit-learn classifier on an iterable.
    keep_predictions : bool, default=True
        Keep predictions, standard deviations and alarms in the report. Without them,
        the memory does not depend on the length of the stream.
    on_error : {"raise", "skip"}, default="raise"
        What to do about a sample that raises ValueError, because it holds NaN, say:
        stop, or leave it out and count it as rejected.

    Returns
    -------
    PrequentialReport

    Notes
    -----
    Seconds are those of the model's own calls. A model that is compiled at its first
    call is so within the first sample.

    Examples
    --------
    >>> import numpy as np
    >>> class LastMean:
    ...     total, count = 0.0, 0
    ...     def predict_one(self, x):
    ...         return self.total / self.count if self.count else None
    ...     def learn_one(self, x, y):
    ...         self.total, self.count = self.total + y, self.count + 1
    >>> report = prequential(LastMean(), np.zeros((4, 1)), np.array([0.0, 2, 1, 1]))
    >>> report.predictions
    array([nan,  0.,  1.,  1.])
    >>> report.mse, report.nmse
    (array([1.33333333]), array([2.66666667]))
    >>> report.baselines["persistence"].nmse
    array([3.33333333])
    """
    _check_counts(window=window, n_points=n_points, neighbours=neighbours)
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error must be 'raise' or 'skip', not {on_error!r}")
    vectors = baselines or not is_river(model)
    samples = Samples(model, X, y, vectors=vectors, output_names=output_names)
    contestant = contender(model, samples, detector is not None, classes)
    tally = Tally(
        len(samples.columns),
        len(samples.output_names),
        are_labels=samples.are_labels,
        baselines=baselines,
        neighbours=neighbours,
        keep=keep_predictions,
        window=window,
        n_points=n_points,
        total=samples.total,
    )
    run(samples, contestant, _gate(detector, samples), tally, on_error == "skip")
    return make_report(
        type(model).__name__, samples, tally, detector is not None, window
    )


def prequential_repeats(
    make_model: Callable[[int], Any],
    X: Any,
    y: Any,
    repetitions: int = 25,
    *,
    detector: Any = None,
    baselines: bool = True,
    keep_predictions: bool = False,
    **settings: Any,
) -> Repeats:
    """Evaluate models that differ by their seed alone, and say how far they differ.

    Parameters
    ----------
    make_model : callable
        ``make_model(seed)`` returns a new model for each of the seeds 0, 1, ...
    X, y : arrays
    repetitions : int, default=25
        At least two.
    detector : estimator, optional
        Each repetition gets its own, new one with the same parameters.
    baselines, keep_predictions, **settings
        As for `prequential`.

    Returns
    -------
    Repeats
        ``reports``, and of every figure the ``mean`` and the ``std``.

    Examples
    --------
    >>> import numpy as np
    >>> class Constant:
    ...     def __init__(self, value):
    ...         self.value = float(value)
    ...     def predict(self, X):
    ...         return np.full(len(X), self.value)
    >>> X, y = np.zeros((4, 1)), np.array([-1.0, 1.0, -1.0, 1.0])
    >>> repeats = prequential_repeats(Constant, X, y, repetitions=2)
    >>> repeats.mean.nmse, repeats.std.nmse
    (array([1.5]), array([0.70710678]))
    """
    if y is None:
        raise TypeError("a stream that is read again and again must be two arrays")
    if not isinstance(repetitions, Integral) or repetitions < 2:
        raise ValueError(f"repetitions must be at least 2, but it is {repetitions!r}")
    reports = [
        prequential(
            make_model(seed),
            X,
            y,
            detector=None if detector is None else clone(detector),
            baselines=baselines and seed == 0,
            keep_predictions=keep_predictions,
            **settings,
        )
        for seed in range(repetitions)
    ]
    return Repeats(tuple(reports))


def _check_counts(**counts: Any) -> None:
    for name, count in counts.items():
        if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
            raise ValueError(f"{name} must be a positive integer, but it is {count!r}")


def _gate(detector: Any, samples: Samples) -> Gate | None:
    if detector is None:
        return None
    if samples.are_labels:
        raise ValueError("a detector judges residuals, but labels have none")
    if not hasattr(detector, "update"):
        raise TypeError(f"{type(detector).__name__} has no update(residuals)")
    return Gate(detector, len(samples.output_names))
