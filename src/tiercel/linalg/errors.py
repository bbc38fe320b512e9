"""What goes wrong when a matrix cannot be factorised."""

from __future__ import annotations

import numpy as np


class FactorisationError(np.linalg.LinAlgError):
    """A matrix that should be positive definite is not, to working precision.

    The message names what was met (pivot, jitter) and what to change. It is a
    ``numpy.linalg.LinAlgError``, so code that catches that one catches this one.

    Examples
    --------
    >>> issubclass(FactorisationError, np.linalg.LinAlgError)
    True
    """
