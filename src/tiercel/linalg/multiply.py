"""Products of triangular matrices, half the work and half the memory of dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack

from tiercel._arrays import is_torch
from tiercel.linalg._checks import square
from tiercel.linalg.triangular import fortran_view


def triangular_gram(R: Any, *, overwrite: bool = False) -> Any:
    """Return the upper triangle of R R' for an upper triangular R.

    The strictly lower triangle is neither read nor written: what it holds in `R` is
    found there in the result too.

    Parameters
    ----------
    R : array or tensor (m, m)
        Upper triangular, float32 or float64, row- or column-major.
    overwrite : bool
        Write the product over `R` instead of into a new m x m array.

    Returns
    -------
    array or tensor (m, m)

    Examples
    --------
    >>> triangular_gram([[1.0, 2.0], [0.0, 3.0]])
    array([[5., 6.],
           [0., 9.]])
    """
    R = square(R, "R")
    if is_torch(R):
        return _gram_by_blocks(R if overwrite else R.clone())
    plain = R.flags.writeable and (R.flags.c_contiguous or R.flags.f_contiguous)
    if not (overwrite and plain):
        R = R.copy(order="F" if R.flags.f_contiguous else "C")
    a, flipped = fortran_view(R)  # R R' is L' L for the transpose L = R'
    lauum = lapack.slauum if R.dtype == np.float32 else lapack.dlauum
    lauum(a, lower=flipped, overwrite_c=1)
    return R


def _gram_by_blocks(R: Any, block: int = 1024) -> Any:
    """Overwrite R from the top: block (i, j) needs rows i, kept aside, and j >= i."""
    for i in range(0, R.shape[0], block):
        row = R[i : i + block, i:].triu()  # a copy
        for j in range(i, R.shape[0], block):
            other = row if j == i else R[j : j + block, j:].triu()
            product = row[:, j - i :] @ other.T
            target = R[i : i + block, j : j + block]
            if i == j:
                product = product.triu() + target.tril(-1)
            target.copy_(product)
    return R
