"""How alike are two points? Kernels, their algebra, gradients and spectral densities.

**What is inside.** Kernels of the distance: :class:`Gaussian`, :class:`Laplacian`,
:class:`Matern`, :class:`RationalQuadratic`, :class:`Cauchy`. Kernels of the inner
product: :class:`Linear`, :class:`Polynomial`. :class:`Precomputed` for values that
exist already. ``+``, ``*`` and ``0.5 *`` combine them into :class:`Sum`,
:class:`Product` and :class:`Scaled`. Every kernel evaluates
densely (``kernel(X, Z)``), knows its diagonal, its gradients with respect to parameters
and points (``pullback``, ``jacobian``) and, where it is shift invariant, its spectrum.
Inputs are numpy arrays, torch tensors or CSR matrices; the result comes back as what
came in.

**Which kernel should I choose?** Start with ``Gaussian``, on columns of similar spread
and with a length scale near the median distance between points. Where the truth has
kinks or noise at small scales, a ``Matern`` is more forgiving (nu=2.5, then 1.5), and
``Laplacian`` follows even jumps. Where near and far points both carry information,
``RationalQuadratic`` mixes many widths; ``Cauchy`` is its cheap member.
High-dimensional sparse data (counts, one-hot) are often served by ``Linear`` or
``Polynomial``. A trend plus local detail is a sum, ``Linear() + Gaussian(0.5)``;
effects that need several groups of inputs at once are products. Inputs that differ in
relevance want one length scale per column.

**A kernel of your own** subclasses :class:`DistanceKernel` or :class:`DotKernel` and
defines its profile, or subclasses :class:`Kernel` and defines ``evaluate``;
``tiercel.testing.check_kernel`` then says whether it keeps its promises.

Examples
--------
>>> kernel = 0.5 * Gaussian(length_scale=2.0) + Linear()
>>> kernel([[0.0], [2.0]]).round(4)
array([[0.5   , 0.3033],
       [0.3033, 4.5   ]])
>>> kernel.set_params(left__base__length_scale=1.0)([[0.0], [2.0]]).round(4)
array([[0.5   , 0.0677],
       [0.0677, 4.5   ]])
"""

from __future__ import annotations

from tiercel.kernels.algebra import Product, Scaled, Sum
from tiercel.kernels.base import Kernel, Pullback
from tiercel.kernels.distance_kernel import DistanceKernel
from tiercel.kernels.distances import squared_distances
from tiercel.kernels.dot import DotKernel, Linear, Polynomial
from tiercel.kernels.heavy_tailed import Cauchy, RationalQuadratic
from tiercel.kernels.precomputed import Precomputed
from tiercel.kernels.stationary import Gaussian, Laplacian, Matern

__all__ = [
    "Cauchy",
    "DistanceKernel",
    "DotKernel",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Polynomial",
    "Precomputed",
    "Product",
    "Pullback",
    "RationalQuadratic",
    "Scaled",
    "Sum",
    "squared_distances",
]
