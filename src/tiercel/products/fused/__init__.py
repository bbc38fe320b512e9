"""Fused GPU products: entries are formed, used and forgotten on the chip.

``prepare`` splits points into halves once; ``apply`` multiplies by the kernel matrix of
two prepared operands without ever writing it; ``EntrySpec`` says what the kernel is.
Triton is imported by the first ``apply``.
"""

from __future__ import annotations

from tiercel.products.fused.configs import Config, candidates
from tiercel.products.fused.entries import EntrySpec, gaussian
from tiercel.products.fused.launch import apply, foldable
from tiercel.products.fused.split import Operand, fitting_scale, prepare

__all__ = [
    "Config",
    "EntrySpec",
    "Operand",
    "apply",
    "candidates",
    "fitting_scale",
    "foldable",
    "gaussian",
    "prepare",
]
