"""How many frequencies are surely enough: the uniform bound, inverted."""

from __future__ import annotations

import math


def suggest_n_frequencies(
    n_features: int, diameter: float, sigma: float, epsilon: float, delta: float
) -> int:
    """Return how many frequencies surely keep the kernel's error below ``epsilon``.

    Claim 1 of Rahimi and Recht (2008; Gijsberts 2011, Claim 4.2) for a kernel with
    k(x, x) = 1: the largest error of phi(x)'phi(z) over a compact set of points is at
    least epsilon with probability at most ``2^8 (sigma diameter / epsilon)^2
    exp(-D epsilon^2 / (4 (d + 2)))``. This returns the smallest D that makes the right
    side at most delta.

    The bound is the same for every kernel and holds for all points of the set at once,
    so it is loose: the example asks for 26,579 frequencies, where 1000 do on most
    draws. Take it as a ceiling, and let `FourierFeatures.kernel_error` judge on points
    of your own.

    Parameters
    ----------
    n_features : int
        Number d of inputs.
    diameter : float
        Largest distance between two points.
    sigma : float
        Root of the mean squared norm of a frequency: for a Gaussian, the root of the
        sum of ``1 / length_scale**2`` over all inputs. It is infinite for Laplacian and
        Matern 0.5, for which the bound says nothing.
    epsilon : float
        Largest error of the kernel's values, between 0 and 1.
    delta : float
        Probability with which it may be exceeded, between 0 and 1.

    Returns
    -------
    int
        The number of frequencies D.

    Examples
    --------
    A square of side 2 under exp(-||x - z||^2), whose length scale is 1 / sqrt(2):

    >>> suggest_n_frequencies(2, 2 * 2**0.5, 2.0, epsilon=0.1, delta=0.05)
    26579
    """
    if not n_features >= 1:
        raise ValueError(f"n_features must be at least 1, not {n_features!r}")
    for name, value in (("diameter", diameter), ("sigma", sigma)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive and finite, not {value!r}")
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must lie between 0 and 1, not {value!r}")
    needed = math.log(256.0 / delta) + 2.0 * math.log(sigma * diameter / epsilon)
    return max(1, math.ceil(4.0 * (n_features + 2) / epsilon**2 * needed))
