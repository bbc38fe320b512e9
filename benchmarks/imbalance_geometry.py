"""Where the boundary of a rare class lies (Camoriano 2017, section 7.3, Fig. 7.1).

Two Gaussians in the plane, the frequent class around (-1, 0) with deviation 1 and the
rare one around (1, 0) with deviation 0.3. The Bayes rule gives the rare class the less
room the rarer it is. With rebalanced weights, or recoded targets, it is that of equally
frequent classes, whatever the frequencies, as far as the features can express it:
recoding looks at probabilities where they are small.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from benchmarks.reproduction import Reproduction, mean_std
from tiercel.features import FourierFeatures
from tiercel.kernels import Gaussian
from tiercel.stream import IncrementalClassifier, rebalanced

MEANS, DEVIATIONS = np.array([-1.0, 1.0]), np.array([1.0, 0.3])
DRAWS, SAMPLES, RIDGE = 5, 20_000, 0.1
MAPS = {"200, length scale 0.7": (0.7, 100), "400, length scale 0.3": (0.3, 200)}


def log_ratio(x: float, frequent: float) -> float:
    """Return the logarithm of the odds of the frequent class at (x, 0)."""
    log_density = -0.5 * ((x - MEANS) / DEVIATIONS) ** 2 - 2 * np.log(DEVIATIONS)
    log_joint = log_density + np.log([frequent, 1 - frequent])
    return float(log_joint[0] - log_joint[1])


def exact_boundary(frequent: float) -> float:
    """Return where the Bayes rule changes between the two means."""
    return float(brentq(log_ratio, *MEANS, args=(frequent,)))


def measured_boundary(points: np.ndarray, margin: np.ndarray) -> float:
    """Return where the frequent class's lead over the rare one becomes negative."""
    lost = int(np.flatnonzero(margin < 0)[0])
    left, right = margin[lost - 1], margin[lost]
    step = points[lost] - points[lost - 1]
    return float(points[lost - 1] + step * left / (left - right))


def draw(frequent: float, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return samples and whether they are of the rare class."""
    y = (random.random(SAMPLES) >= frequent).astype(int)
    X = random.standard_normal((SAMPLES, 2)) * DEVIATIONS[y, None]
    X[:, 0] += MEANS[y]
    return X, y


def boundaries(frequent: float, features: str, seed: int) -> dict[str, float]:
    """Return the boundaries that least squares finds: as it is, RB and RC."""
    X, y = draw(frequent, np.random.default_rng(seed))
    length_scale, frequencies = MAPS[features]
    waves = FourierFeatures(Gaussian(length_scale), frequencies, random_state=seed)
    points = np.linspace(MEANS[0], MEANS[1], 2001)
    axis = np.column_stack([points, np.zeros_like(points)])
    weights = rebalanced(waves.fit_transform(X), y, RIDGE)
    scores = waves.transform(axis) @ weights
    found = {"RB": measured_boundary(points, scores[:, 0] - scores[:, 1])}
    for name, recode in (("N", 0.0), ("RC", 1.0)):
        model = IncrementalClassifier(waves, RIDGE, recode).fit(X, y)
        found[name] = measured_boundary(points, -model.decision_function(axis))
    return found


def measure(frequent: float) -> list[dict[str, Any]]:
    """Return the exact boundaries and those found from samples, for each map."""
    rows = []
    for features in MAPS:
        found = [boundaries(frequent, features, seed) for seed in range(DRAWS)]
        rows.append(
            {
                "features": features,
                "Bayes": exact_boundary(frequent),
                "N": mean_std(each["N"] for each in found),
                "Bayes, equal classes": exact_boundary(0.5),
                "RB": mean_std(each["RB"] for each in found),
                "RC": mean_std(each["RC"] for each in found),
            }
        )
    return rows


BENCHMARK = Reproduction(
    title="Where the boundary of a rare class lies",
    sentence=(
        "Two Gaussians, the frequent class around (-1, 0) with deviation 1, the rare "
        "one around (1, 0) with deviation 0.3 (Camoriano 2017, Fig. 7.1): where on the "
        "axis between them the rare class begins. The Bayes rule moves with the "
        "frequencies, and least squares (N) with it; rebalanced (RB) and recoded (RC) "
        "least squares stay at the rule for equally frequent classes, as far as the "
        "random Fourier features can express it. 20,000 samples, 5 draws."
    ),
    cases=[{"frequent": share} for share in (0.5, 0.6, 0.7, 0.8, 0.9)],
    measure=measure,
)
