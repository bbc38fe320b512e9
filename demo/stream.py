"""A robot arm that learns its own dynamics while it moves, one sample at a time.

The arm is simulated: three joints at 50 Hz, its force sensor drifts, and nobody tells
the learners. Each predicts two forces and three torques of the next sample, is told
what they were, and learns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.robot_streams import drifting_arm
from tiercel import plots
from tiercel._progress import ProgressBar
from tiercel.stream import PrequentialReport, SparseSpectrumGP, prequential

SAMPLES, FREQUENCIES = 8_000, 100


class Frozen:
    """A model that has learned the head, and learns no more."""

    def __init__(self, model: Any) -> None:
        self.predict = model.predict


def process(**options: Any) -> SparseSpectrumGP:
    return SparseSpectrumGP(
        FREQUENCIES, n_tune=1_000, max_steps=60, random_state=0, **options
    )


def scikit_learn() -> Any:
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDRegressor
    from sklearn.multioutput import MultiOutputRegressor

    class FourierSGD:
        """Random features of the same number, and stochastic gradient on them.

        Of the powers of two, this is the rate with the least error one step ahead on
        the head; twice as large, it diverges.
        """

        def __init__(self) -> None:
            self.features = RBFSampler(gamma=0.05, n_components=2 * FREQUENCIES)
            self.features.set_params(random_state=0)
            self.model = MultiOutputRegressor(
                SGDRegressor(
                    alpha=1e-6, learning_rate="constant", eta0=0.5, random_state=0
                )
            )

        def partial_fit(self, X: np.ndarray, y: np.ndarray) -> None:
            if not hasattr(self.features, "random_weights_"):
                self.features.fit(X)
            self.model.partial_fit(self.features.transform(X), y)

        def predict(self, X: np.ndarray) -> np.ndarray:
            return self.model.predict(self.features.transform(X))

    return FourierSGD()


def evaluate(bar: ProgressBar) -> dict[str, PrequentialReport]:
    """Let every learner live through the stream; return what it reached."""
    data = drifting_arm(seed=0, n=SAMPLES)
    scale = data.y_head.std(0)
    y_head, y = data.y_head / scale, data.y / scale
    models = {
        "Tiercel, learning": process().optimize(data.X_head, y_head),
        "Tiercel, learning, with a trend": process(trend=len(y)),
        "Tiercel, frozen": Frozen(process().fit(data.X_head, y_head)),
        "scikit-learn, features + SGD": scikit_learn(),
    }
    models["Tiercel, learning, with a trend"].optimize(data.X_head, y_head)
    reports = {}
    for done, (name, model) in enumerate(models.items()):
        bar(done, len(models), note=name)
        if name.startswith("Tiercel, learning"):
            model.warm_up()
        elif hasattr(model, "partial_fit"):
            model.partial_fit(data.X_head, y_head)
        reports[name] = prequential(
            model, data.X, y, output_names=data.outputs, baselines=not done
        )
    bar(len(models), len(models))
    return reports


def show(reports: dict[str, PrequentialReport], folder: Path) -> None:
    """Print the table and draw the learning curves of a force and of a torque."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    print(f"\n{'':36}{'% nMSE':>8}{'µs, median':>12}{'µs, 99 %':>10}")
    for name, report in reports.items():
        seconds = report.seconds
        assert seconds is not None
        print(
            f"{name:36}{100 * report.error.mean():8.2f}{1e6 * seconds.median:12.1f}"
            f"{1e6 * seconds.percentile_99:10.1f}"
        )
    first = next(iter(reports.values()))
    for name, figures in first.baselines.items():
        print(f"{name.replace('_', ' '):36}{100 * figures.error.mean():8.2f}")
    outputs = len(first.output_names)
    figure, axes = plt.subplots(
        1, outputs, figsize=(3.4 * outputs, 3.6), layout="constrained", sharey=True
    )
    plots.prequential(reports, axes)
    path = folder / "learning_curves.png"
    figure.savefig(path, dpi=120)
    print(f"\nFigure: {path}")


def main(folder: Path) -> None:
    """Run everyone on the stream."""
    print(
        "\nLearning a robot arm's dynamics while it moves: 9 inputs, 5 outputs, "
        f"{SAMPLES * 3 // 4:,} samples,\neach predicted before it is learned ..."
    )
    show(evaluate(ProgressBar("streams")), folder)
