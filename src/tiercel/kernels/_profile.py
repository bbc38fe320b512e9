"""What the two families of leaf kernels share: a profile of a statistic, and scales."""

from __future__ import annotations

from string import Formatter
from typing import Any

import numpy as np

from tiercel._arrays import is_torch, to_numpy
from tiercel.kernels.base import NotOffered
from tiercel.kernels.distances import scaled


class Profile:
    """Kernels whose value is ``profile(t)``, t a statistic of the scaled points."""

    statistic: str | None
    fused: str | None
    #: The engine hands ``fold * t`` to ``profile_in_place``.
    fold: float = 1.0
    #: Operations of one profile value; an elementary function counts as ten.
    profile_operations: int = 10
    takes_sparse = True

    def profile(self, t: Any, xp: Any) -> Any:
        """Return the kernel's values at the statistics ``t``.

        ``xp`` is numpy or torch; use what both have, such as ``xp.exp`` and ``**``.
        """
        raise NotOffered(f"{type(self).__name__} does not define profile(t, xp)")

    def profile_derivative(self, t: Any, xp: Any) -> Any:
        """Return d profile / d t; at a singular t = 0, where directions cancel, 0."""
        raise NotOffered(
            f"{type(self).__name__} has no gradients: define profile_derivative(t, xp)"
        )

    def profile_parameters(self, t: Any, xp: Any) -> dict[str, Any]:
        """Return d profile / d parameter for each parameter beside the length scale."""
        return {}

    def profile_in_place(self, s: Any, xp: Any) -> None:
        """Overwrite ``s``, which holds ``fold * t``, with the kernel's values.

        Override it where fewer passes will do. A distance t may lie a rounding error
        below 0, except in ``rough`` kernels, whose tiles are repaired first.
        """
        t = s / self.fold
        if self.statistic == "distance":
            t = xp.clip(t, 0.0, None)
        s[...] = self.profile(t, xp)

    def fused_values(self) -> dict[str, float]:
        """Return the floats for the names in braces in ``fused``."""
        fields = Formatter().parse(self.fused or "")
        names = dict.fromkeys(name for _, name, _, _ in fields if name)
        return {name: float(getattr(self, name)) for name in names}

    def scale_of(self, n_features: int) -> np.ndarray:
        """Return 1/length_scale in float64: 0-d, or of shape (n_features,)."""
        length_scale = to_numpy(getattr(self, "length_scale", 1.0))
        return np.asarray(1.0 / np.asarray(length_scale, dtype=np.float64))

    def _scaled(self, X: Any, Z: Any) -> tuple[Any, Any]:
        scale = self.scale_of(X.shape[1])
        x = scaled(X, scale)
        return x, (x if Z is X else scaled(Z, scale))

    def operations(self, n_features: int) -> int:
        """Return how many floating point operations one kernel value costs."""
        return 2 * n_features + self.profile_operations


def plain_module(array: Any) -> Any:
    """Return numpy or torch itself, the module whose functions take ``out=``."""
    if is_torch(array):
        import torch

        return torch
    return np
