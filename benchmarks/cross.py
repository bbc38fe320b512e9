"""Cross 2D, 10D and 20D: how many frequencies it takes, and how many epochs of LWPR."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.reproduction import Reproduction, mean_std
from benchmarks.robot_streams import TrainTest, cross, cross_function
from tiercel.stream import (
    LocallyWeightedProjection,
    SparseSpectrumGP,
    gaussian_process_predict,
    optimize_gaussian_process,
)

INSTANCE, DRAWS, ORDERS, INSTANCES = 0, 25, 3, 10
STEPS, STEPS_OF_MANY, MANY = 200, 60, 200
FIXED, OPTIMIZED, EPOCHS = (25, 50, 100, 200, 400), (25, 50, 100), (1, 10, 40, 200)
Row = dict[str, Any]

# Levels of another program, in plain NumPy, on one or two other drawn instances.
LEVEL, LATE = "close to the exact process", "as low as the others after many epochs"
OVERFIT = "clearly worse than the others, training error near 0"
PRINTED = {
    **{(n, "exact Gaussian process"): "about 0.02" for n in (2, 10, 20)},
    (2, "fixed, D = 25"): "needs more frequencies than 10D and 20D",
    **{(n, "non-fixed, D = 25"): LEVEL for n in (2, 10)},
    **{(20, f"non-fixed, D = {D}"): OVERFIT for D in OPTIMIZED},
    **{(n, "LWPR, tuned, epoch 200"): LATE for n in (2, 10)},
    (20, "LWPR, tuned, epoch 200"): "worse, and slower, than in 2D and 10D",
}


def errors(model: Any, data: TrainTest) -> tuple[float, float]:
    """Return the error on the grid and that on the training samples, both as nMSE."""
    test = (model.predict(data.X_test) - data.y_test) ** 2
    training = (model.predict(data.X) - data.y) ** 2
    return test.mean() / data.y_test.var(), training.mean() / data.y.var()


class ExactProcess:
    """Gaussian process regression, its hyperparameters by marginal likelihood."""

    def __init__(self, data: TrainTest) -> None:
        self.hyper = optimize_gaussian_process(data.X, data.y, max_iter=STEPS)
        self.known = data.X, data.y

    def predict(self, X: np.ndarray) -> np.ndarray:
        return gaussian_process_predict(self.hyper, *self.known, X)[0]


def exact(data: TrainTest) -> Row:
    test, training = errors(ExactProcess(data), data)
    return {
        "method": "exact Gaussian process",
        "test nMSE": test,
        "training nMSE": training,
    }


def truth(data: TrainTest) -> Row:
    """Return what noise alone leaves: the same points come in two dimensions, too."""
    noise = data.y - cross_function(cross(2, INSTANCE).X)
    return {
        "method": "the function itself",
        "test nMSE": 0.0,
        "training nMSE": (noise**2).mean() / data.y.var(),
    }


def processes(data: TrainTest) -> list[Row]:
    """Sparse-spectrum processes, with frequencies as drawn or optimised."""
    kinds = [("fixed", count) for count in FIXED]
    kinds += [("optimized", count) for count in OPTIMIZED]
    rows = []
    for tuning, count in kinds:
        steps = STEPS if count < MANY else STEPS_OF_MANY
        found = []
        for draw in range(DRAWS):
            model = SparseSpectrumGP(
                count, tuning=tuning, max_steps=steps, random_state=draw
            )
            with warnings.catch_warnings():  # of overfitting, which is to be seen here
                warnings.simplefilter("ignore", UserWarning)
                found.append(errors(model.fit(data.X, data.y), data))
        label = "fixed" if tuning == "fixed" else "non-fixed"
        rows.append(row(f"{label}, D = {count}", found))
    return rows


def row(method: str, found: list[tuple[float, float]], **more: Any) -> Row:
    test, training = zip(*found, strict=True)
    spread = {"test nMSE": mean_std(test), "training nMSE": mean_std(training)}
    return {"method": method, **spread, **more}


# --- locally weighted projection regression ------------------------------------------

SHARED: dict[str, Any] = {"generate_below": 0.2, "add_threshold": 0.9}
AS_KNOWN: dict[str, Any] = {"init_metric": 50.0, "init_rate": 250.0, "meta_rate": 250.0}
STILL: dict[str, Any] = {"init_rate": 1e-30, "meta_rate": None}  # metrics do not move
SEARCH: dict[str, tuple[Any, ...]] = {
    "init_metric": (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0),
    "init_rate": (1.0, 10.0, 50.0, 250.0, 1000.0, 5000.0),
    "meta_rate": (None, 10.0, 50.0, 250.0, 1000.0),
}
TUNED_FOR = 20  # epochs


def one_step_ahead(data: TrainTest, settings: dict[str, Any]) -> float:
    """Return the mean squared error before learning, over epochs in random order."""
    model = LocallyWeightedProjection(**SHARED, **settings)
    random, total = np.random.default_rng(0), 0.0
    for _ in range(TUNED_FOR):
        order = random.permutation(len(data.X))
        targets = data.y[order].tolist()
        for x, y in zip(data.X[order], targets, strict=True):
            total += (model.predict_update(x, y) - y) ** 2
    return total


def tuned(data: TrainTest) -> dict[str, Any]:
    """Choose the metric, then the rate of its change, then the rate of that rate."""
    settings = {"init_metric": None, **STILL}
    for name, values in SEARCH.items():
        error = {v: one_step_ahead(data, settings | {name: v}) for v in values}
        settings[name] = min(values, key=error.__getitem__)
    return settings


def projections(
    label: str, settings: dict[str, Any], several: list[TrainTest]
) -> list[Row]:
    """LWPR after some epochs, each of them in an order of its own."""
    found: dict[int, list[tuple[float, float]]] = {epoch: [] for epoch in EPOCHS}
    fields: dict[int, list[int]] = {epoch: [] for epoch in EPOCHS}
    for seed, data in enumerate(several):
        random = np.random.default_rng(seed)
        model = LocallyWeightedProjection(**SHARED, **settings)
        for epoch in range(1, max(EPOCHS) + 1):
            order = random.permutation(len(data.X))
            model.partial_fit(data.X[order], data.y[order])
            if epoch in EPOCHS:
                found[epoch].append(errors(model, data))
                fields[epoch].append(model.n_fields_)
    return [
        row(f"{label}, epoch {epoch}", found[epoch], fields=np.mean(fields[epoch]))
        for epoch in EPOCHS
    ]


def measure(dimensions: int) -> list[Row]:
    data = cross(dimensions, INSTANCE)
    with threadpool_limits(1):
        rows = [truth(data), exact(data), *processes(data)]
        rows += projections("LWPR", AS_KNOWN, ORDERS * [data])
        chosen = tuned(data)
        rows += projections("LWPR, tuned", chosen, ORDERS * [data])
        rows[-len(EPOCHS)]["chosen"] = ", ".join(f"{k} {v}" for k, v in chosen.items())
        if dimensions == 2:  # where levels are known
            several = [cross(2, INSTANCE + number) for number in range(INSTANCES)]
            rows += projections(f"LWPR, {INSTANCES} instances", AS_KNOWN, several)
    for made in rows:
        key = dimensions, made["method"]
        made["printed"] = PRINTED.get(key)
    return rows


BENCHMARK = Reproduction(
    title="Cross 2D, 10D and 20D",
    sentence=(
        "Gijsberts (2011, section 5.1): 500 noisy samples of a function of two "
        "variables, which 10D hides in a rotation and 20D in ten more inputs of noise. "
        "Error on a grid without noise, and on the training samples, over the variance "
        "of the targets; what lies below the training error of the function itself is "
        f"noise learned by heart. One drawn instance; D frequencies drawn {DRAWS} "
        f"times, hyperparameters by L-BFGS-B with at most {STEPS} steps "
        f"({STEPS_OF_MANY} from D = {MANY} on, to save time). LWPR with inputs as they "
        f"are, w_gen 0.2, add_threshold 0.9, in {ORDERS} orders of presentation: with "
        "metric 50 and both rates 250, or with what a greedy search for the least "
        f"one-step-ahead error over {TUNED_FOR} epochs chose (200 in print). The print "
        "has curves without numbers: *printed* is what its text says of them."
    ),
    cases=[{"dimensions": 2}, {"dimensions": 10}, {"dimensions": 20}],
    measure=measure,
)
