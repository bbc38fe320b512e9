"""How the algebra is done: systems, factors, and factors that change.

Which solver?

- A matrix that fits, and an answer to it without jitter: `solve_positive`.
- The same matrix again and again: `cholesky`, then ``factor.solve``; the jitter that
  was needed, if any, is ``factor.jitter``.
- A matrix known only by its products, or one with a good preconditioner:
  `conjugate_gradient`.
- A matrix that gains columns (more centres): `GrowingCholesky`, or `cholesky_extend`
  for a single step.
- A matrix that gains or loses samples: `cholesky_update`, `cholesky_downdate`, and
  `cholesky_update_rows` for many samples at once.
- Least squares so ill-conditioned that X'X + ridge I has lost its digits: add the rows
  [X y] to the factor sqrt(ridge) I by `cholesky_update_rows`, which squares nothing,
  and solve with its last column.

Factors are upper triangular, R' R = A, everywhere. Arrays are numpy or torch, float32
or float64; torch tensors stay on their device. Iterative solvers return a `Solution`
whose `Outcome` says how they ended and what to do about it; a matrix that cannot be
factorised raises `FactorisationError`.
"""

from tiercel.linalg.cholesky import CholeskyFactor, cholesky
from tiercel.linalg.conjugate_gradient import conjugate_gradient
from tiercel.linalg.errors import FactorisationError
from tiercel.linalg.extend import GrowingCholesky, cholesky_extend
from tiercel.linalg.multiply import triangular_gram
from tiercel.linalg.positive import solve_positive
from tiercel.linalg.solution import Outcome, Solution
from tiercel.linalg.triangular import solve_triangular
from tiercel.linalg.update import (
    cholesky_downdate,
    cholesky_update,
    cholesky_update_rows,
)

__all__ = [
    "CholeskyFactor",
    "FactorisationError",
    "GrowingCholesky",
    "Outcome",
    "Solution",
    "cholesky",
    "cholesky_downdate",
    "cholesky_extend",
    "cholesky_update",
    "cholesky_update_rows",
    "conjugate_gradient",
    "solve_positive",
    "solve_triangular",
    "triangular_gram",
]
