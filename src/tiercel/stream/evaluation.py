"""How well does a model predict what comes next? One-step-ahead evaluation.

Every sample of a stream is a test before it is a lesson: the model predicts it, the
error is recorded, then the model learns it (Gijsberts 2011, section 5.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from tiercel.stream._prequential.gate import Gate
from tiercel.stream._prequential.models import Contender, contender, is_river
from tiercel.stream._prequential.report import Figures, PrequentialReport, Repeats
from tiercel.stream._prequential.samples import Sample, Samples, unpack
from tiercel.stream._prequential.tally import Answer, Tally

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
    _run(samples, contestant, _gate(detector, samples), tally, on_error == "skip")
    return _report(type(model).__name__, samples, tally, detector is not None, window)


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


def _run(
    samples: Samples, model: Contender, gate: Gate | None, tally: Tally, skip: bool
) -> None:
    """Take the model through the stream."""
    rejected: ValueError | ArithmeticError | None = None
    for t, pair in enumerate(samples.pairs):
        given, y = unpack(pair)
        try:
            sample = samples.read(given, y)
            answer = _step(samples, model, gate, sample)
        except (ValueError, ArithmeticError) as error:
            if not skip:
                error.add_note(
                    f"This was sample {t} of the stream (counted from 0); "
                    "on_error='skip' leaves such samples out."
                )
                raise
            rejected = error
            tally.reject()
        else:
            tally.add(sample.x, sample.target, answer)
    if rejected is not None and not tally.any_accepted():
        raise ValueError(
            f"every sample was rejected, the last one as: {rejected}"
        ) from rejected


def _step(
    samples: Samples, model: Contender, gate: Gate | None, sample: Sample
) -> Answer:
    """Let the model predict one sample and learn it."""
    x, y = model.prepare(sample)
    if model.predict_learn is not None:
        start = perf_counter()
        answer = model.predict_learn(x, y)
        seconds = perf_counter() - start
        return Answer(*_numbers(answer, samples), False, seconds)
    start = perf_counter()
    answer = model.predict(x)
    seconds = perf_counter() - start
    mean, std = _numbers(answer, samples)
    closed = False
    if gate is not None and mean is not None:
        closed = gate.closes(sample.target - mean, std)
    if model.learn is not None and not closed:
        start = perf_counter()
        model.learn(x, y)
        seconds += perf_counter() - start
    return Answer(mean, std, closed, seconds)


def _numbers(
    answer: Any, samples: Samples
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the mean and the standard deviation in an answer; labels as their code.

    They are copies, as a model may write its next answer where it wrote this one.
    """
    if answer is None:
        return None, None
    if samples.are_labels:
        return np.array([samples.code(answer)], np.float64), None
    mean, std = answer if isinstance(answer, tuple) else (answer, None)
    T = len(samples.output_names)
    mean = np.array(mean, np.float64).reshape(-1)
    if mean.shape != (T,):
        raise TypeError(f"the model predicts {mean.size} outputs, the stream has {T}")
    if std is not None:
        std = np.broadcast_to(np.array(std, np.float64).reshape(-1), (T,))
    return mean, std


def _report(
    name: str, samples: Samples, tally: Tally, gated: bool, window: int
) -> PrequentialReport:
    """Turn the counts into figures."""
    drawn, final = tally.finish(), tally.curves.means()
    variance = None if samples.are_labels else tally.spread.variance()
    counts = tally.counts
    contestants = [
        _errors(final[c], drawn.cumulative[:, c], drawn.windowed[:, c], variance)
        for c in range(1 + len(tally.baselines))
    ]
    predictions, std, gates = _kept(samples, tally)
    return PrequentialReport(
        **contestants[0],
        model=name,
        output_names=samples.output_names,
        n_samples=tally.seen,
        n_rejected=tally.seen - counts["accepted"],
        n_unanswered=counts["accepted"] - counts["answered"],
        window=int(window),
        positions=drawn.positions,
        target_variance=variance,
        baselines={
            name: Figures(**errors)
            for name, errors in zip(tally.baselines, contestants[1:], strict=True)
        },
        coverage=tally.covered / tally.judged if tally.judged else None,
        gated_share=counts["gated"] / counts["accepted"] if gated else None,
        seconds=tally.durations.quantiles(),
        windowed_seconds=drawn.seconds,
        predictions=predictions,
        std=std,
        gated=gates if gated else None,
    )


def _errors(
    final: np.ndarray,
    cumulative: np.ndarray,
    windowed: np.ndarray,
    variance: np.ndarray | None,
) -> dict[str, Any]:
    """Return errors as `Figures` has them: over the variance, or as rates."""
    if variance is None:
        rate = float(final[0])
        return {
            "mse": None,
            "nmse": None,
            "error_rate": rate,
            "cumulative": cumulative,
            "windowed": windowed,
        }
    scale = np.where(variance > 0, variance, np.nan)
    return {
        "mse": final,
        "nmse": final / scale,
        "error_rate": None,
        "cumulative": cumulative / scale,
        "windowed": windowed / scale,
    }


def _kept(
    samples: Samples, tally: Tally
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """Return predictions, standard deviations and alarms, one per sample."""
    if not tally.kept:
        return None, None, None
    mean, std, gated = (
        np.concatenate(parts) for parts in zip(*tally.kept, strict=True)
    )
    if samples.scalar:
        mean, std = mean[:, 0], std[:, 0]
    if samples.are_labels:
        table = np.empty(len(samples.codes) + 1, object)  # its last entry is None
        for label, code in samples.codes.items():
            table[code] = label
        mean = table[np.where(np.isnan(mean), len(samples.codes), mean).astype(int)]
    return mean, std if tally.judged else None, gated
