"""Which finite map stands in for the kernel?

A linear model on phi(x) is a kernel model with the kernel phi(x)'phi(z). Where phi has
a few hundred or thousand entries, that model costs no more for the millionth sample
than for the first.

**What is inside.** :class:`FourierFeatures` draws frequencies from the spectrum of a
shift-invariant kernel (Rahimi and Recht 2008). It is a scikit-learn transformer for
numpy arrays, torch tensors, DataFrames and CSR rows, known from its seed alone.
:func:`suggest_n_frequencies` says how many frequencies are surely enough, and
``kernel_error`` how good a map is on points of your own; the error falls as one over
the root of their number.

**Which map?** ``"sincos"`` makes two features of a frequency, a cosine and a sine. The
kernel of a point with itself is exact, as Bayesian models need it. ``"phase"`` makes
one, a cosine with a random phase, as in Gijsberts' recursive least squares and in
scikit-learn's ``RBFSampler``: take it where you compare with these. With F features of
independent frequencies and k(0) = 1, the variance of phi(x)'phi(z) is (1 + k(2 delta) -
2 k(delta)^2) / F for the first and (1 + k(2 delta) / 2 - k(delta)^2) / F for the
second, delta being x - z (Sutherland and Schneider 2015). So the first is more accurate
wherever k(2 delta) < 2 k(delta)^2: for the Gaussian and the Laplacian everywhere.

**Which sampling?** ``"orthogonal"`` lowers the error of a Gaussian at no cost but in
``fit``, which grows with the square of the number of inputs: take it for kernels of the
distance on up to some hundreds of inputs. ``"structured"`` has that accuracy for many
inputs, at a cost that grows with their logarithm. ``"independent"`` is for all kernels,
sums and products of any kind included.

Examples
--------
>>> import numpy as np
>>> from tiercel.kernels import Gaussian
>>> X = np.array([[0.0], [1.0]])
>>> features = FourierFeatures(Gaussian(), n_frequencies=5000, random_state=0)
>>> Phi = features.fit_transform(X)
>>> error = Phi @ Phi.T - Gaussian()(X)
>>> bool(abs(error).max() < 0.03)
True
"""

from __future__ import annotations

from tiercel.features.fourier import FourierFeatures, KernelError
from tiercel.features.guarantee import suggest_n_frequencies

__all__ = ["FourierFeatures", "KernelError", "suggest_n_frequencies"]
