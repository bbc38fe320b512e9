"""Frequencies drawn from the spectrum of a kernel, independent or orthogonal."""

from __future__ import annotations

import numpy as np

from tiercel.kernels import DistanceKernel, Kernel, Product, Scaled, Sum

CHUNK = 2**20  # numbers drawn at a time where only their norms are kept


def draw_orthogonal(
    kernel: Kernel, shape: tuple[int, int], rng: np.random.Generator
) -> np.ndarray:
    """Draw frequencies in blocks of d with orthogonal directions (Yu et al. 2016).

    Directions come from a random rotation of the axes and norms from frequencies drawn
    on their own, so that each frequency keeps its law; `isotropic_scale` says for which
    kernels that holds.

    Parameters
    ----------
    kernel : Kernel
    shape : (D, d)
    rng : Generator

    Returns
    -------
    array (D, d)

    Examples
    --------
    >>> from tiercel.kernels import Laplacian
    >>> rng = np.random.default_rng(0)
    >>> W = draw_orthogonal(Laplacian(), (2, 2), rng)
    >>> bool(abs(W[0] @ W[1]) < 1e-12 * np.linalg.norm(W[0]) * np.linalg.norm(W[1]))
    True
    """
    n_frequencies, n_features = shape
    scale = isotropic_scale(kernel, n_features)
    norms = draw_norms(kernel, shape, scale, rng)
    blocks = -(-n_frequencies // n_features)
    Q, R = np.linalg.qr(rng.standard_normal((blocks, n_features, n_features)))
    # Without these signs the rotations would not be uniform (Mezzadri 2007).
    Q *= np.sign(np.diagonal(R, axis1=1, axis2=2))[:, None, :]
    directions = Q.reshape(-1, n_features)[:n_frequencies]
    return norms[:, None] * directions * scale


def draw_norms(
    kernel: Kernel, shape: tuple[int, int], scale: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw the norms of frequencies whose columns have been divided by ``scale``."""
    n_frequencies, n_features = shape
    height = max(1, CHUNK // n_features)
    norms = np.empty(n_frequencies)
    for start in range(0, n_frequencies, height):
        part = norms[start : start + height]
        drawn = kernel.sample_frequencies(len(part), n_features, rng)
        part[:] = np.linalg.norm(drawn / scale, axis=1)
    return norms


def isotropic_scale(kernel: Kernel, n_features: int) -> np.ndarray:
    """Return the factors of the columns but for which the spectrum is isotropic.

    The spectrum of a kernel of the distance is isotropic once the length scales are
    undone. So is that of a sum (a mixture) or a product (a sum of independent
    frequencies) of such kernels if their length scales are proportional; otherwise no
    stretching of the columns makes it so, and ValueError is raised.

    Examples
    --------
    >>> from tiercel.kernels import Cauchy, Gaussian
    >>> isotropic_scale(Gaussian([1.0, 2.0]) + 3.0 * Cauchy([2.0, 4.0]), 2)
    array([1. , 0.5])
    """
    if isinstance(kernel, Scaled):
        return isotropic_scale(kernel.base, n_features)
    if isinstance(kernel, DistanceKernel):
        return np.broadcast_to(kernel.scale_of(n_features), (n_features,)).copy()
    if not isinstance(kernel, Sum | Product):
        raise ValueError(
            f"the spectrum of {type(kernel).__name__} is not known to be isotropic, "
            "which orthogonal and structured frequencies need; use "
            "sampling='independent'"
        )
    left = isotropic_scale(kernel.left, n_features)
    right = isotropic_scale(kernel.right, n_features)
    if not np.allclose(left / left.max(), right / right.max(), rtol=1e-9, atol=0.0):
        raise ValueError(
            f"the parts of {kernel!r} stretch the columns differently, so that its "
            "spectrum is not isotropic, which orthogonal and structured frequencies "
            "need; use sampling='independent', or length scales that are proportional"
        )
    return left
