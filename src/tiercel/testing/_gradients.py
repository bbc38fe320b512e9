"""Checks of a kernel's gradients against central differences."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from tiercel.kernels.base import NotOffered, Pullback
from tiercel.testing._case import KernelCase, assert_close, numbers

STEP = 1e-5
TOLERANCE = 1e-6


def parameter_gradients(case: KernelCase) -> None:
    """Check the gradient of every parameter; none that matters may be missing."""
    gradient = _pullback(case)
    if gradient is None:
        return
    for name, value in numbers(case.kernel).items():
        if name not in gradient.parameters:
            _assert_not_continuous(case, name, value)
            continue

        def total(values: np.ndarray, name: str = name) -> float:
            kernel = case.with_parameter(name, values if values.ndim else float(values))
            return float(np.sum(case.U * kernel.evaluate(case.X, case.Z)))

        steps = STEP * np.where(value == 0.0, 1.0, np.abs(value))
        expected = differences(total, value, steps)
        noise = _rounding(case, case.Z, case.U) / steps.min()
        actual = gradient.parameters[name]
        _assert_gradient(actual, expected, f"the gradient of {name}", noise)


def point_gradients(case: KernelCase) -> None:
    """Check the gradients of both arguments, apart and where they are one."""
    gradient = _pullback(case)
    if gradient is None:
        return
    kernel, X, Z, U = case.kernel, case.X, case.Z, case.U
    steps = np.full(X.shape, STEP * np.std(X))
    noise = _rounding(case, Z, U) / steps[0, 0]
    expected = differences(lambda X: np.sum(U * kernel(X, Z)), X, steps)
    _assert_gradient(gradient.X, expected, "the gradient of X", noise)
    if kernel.precomputed:
        return
    expected = differences(lambda Z: np.sum(U * kernel(X, Z)), Z, steps)
    _assert_gradient(gradient.Z, expected, "the gradient of Z", noise)
    U = case.rng.standard_normal((X.shape[0], X.shape[0]))
    both = kernel.pullback(X, None, U)
    expected = differences(lambda X: np.sum(U * kernel(X)), X, steps)
    noise = _rounding(case, X, U) / steps[0, 0]
    _assert_gradient(both.X + both.Z, expected, "the gradient of k(X, X)", noise)


def jacobian_agrees_with_pullback(case: KernelCase) -> None:
    """Check that weighted sums of the jacobian are the pullback."""
    gradient = _pullback(case)
    if gradient is None:
        return
    jacobian = case.kernel.jacobian(case.X, case.Z)
    summed = {k: np.tensordot(case.U, v, 2) for k, v in jacobian.items() if k != "X"}
    assert summed.keys() == gradient.parameters.keys(), (
        f"jacobian has {sorted(summed)}, pullback {sorted(gradient.parameters)}"
    )
    for name, value in summed.items():
        _assert_gradient(gradient.parameters[name], value, f"jacobian of {name}")
    from_X = np.einsum("ij,ijk->ik", case.U, jacobian["X"])
    _assert_gradient(gradient.X, from_X, "jacobian of X")


def torch_gradients(case: KernelCase) -> None:
    """Check gradients of tensors against those of arrays."""
    gradient = _pullback(case)
    if gradient is None or find_spec("torch") is None:
        return
    import torch

    tensors = (torch.from_numpy(a) for a in (case.X, case.Z, case.U))
    again = case.kernel.pullback(*tensors)
    _assert_gradient(again.X.numpy(), gradient.X, "the gradient of a tensor X")
    for name, value in gradient.parameters.items():
        actual = again.parameters[name]
        _assert_gradient(actual, value, f"the gradient of {name} in torch")


def sparse_gradients(case: KernelCase) -> None:
    """Check gradients of parameters at sparse points; those have none themselves."""
    if _pullback(case) is None or not case.kernel.takes_sparse:
        return
    X, Z = (np.where(a > 0, a, 0.0) for a in (case.X, case.Z))
    expected = case.kernel.pullback(X, Z, case.U)
    rows, columns = sparse.csr_array(X), sparse.csr_matrix(Z)
    gradient = case.kernel.pullback(rows, columns, case.U)
    assert gradient.X is None, "sparse X has a gradient"
    assert gradient.Z is None, "sparse Z has a gradient"
    for name, value in expected.parameters.items():
        actual = gradient.parameters[name]
        _assert_gradient(actual, value, f"the gradient of {name} at CSR points")


def differences(
    function: Callable[[np.ndarray], float], at: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Return the gradient of a function by differences, entry by entry.

    Central ones, but forward ones (of second order, too) at a parameter that is 0,
    which is often the edge of what is allowed.
    """
    result = np.zeros(at.shape)
    for index in np.ndindex(at.shape):

        def along(count: float, index: Any = index) -> float:
            moved = at.copy()
            moved[index] += count * steps[index]
            return function(moved)

        if np.all(at == 0.0):
            slope = 2.0 * along(1.0) - 0.5 * along(2.0) - 1.5 * along(0.0)
        else:
            slope = 0.5 * (along(1.0) - along(-1.0))
        result[index] = slope / steps[index]
    return result


def _pullback(case: KernelCase) -> Pullback | None:
    """Return the gradient, None where the kernel offers none."""
    try:
        return case.kernel.pullback(case.X, case.Z, case.U)
    except NotOffered:
        return None


def _rounding(case: KernelCase, Z: Any, U: np.ndarray) -> float:
    """Return what rounding may do to ``sum(U * k(X, Z))``."""
    return 1e-14 * float(np.sum(np.abs(U * case.kernel(case.X, Z))))


def _assert_gradient(actual: Any, expected: Any, what: str, noise: float = 0.0) -> None:
    """Compare gradients, of which the expected ones are uncertain by ``noise``."""
    size = max(float(np.max(np.abs(expected))), 1e-300)
    assert_close(actual, expected, TOLERANCE + noise / size, what)


def _assert_not_continuous(case: KernelCase, name: str, value: np.ndarray) -> None:
    """Raise where a parameter without gradient changes the kernel's values."""
    nudged = case.with_parameter(name, value * (1.0 + 1e-6) + 1e-9)
    try:
        moved = nudged(case.X, case.Z)
    except (TypeError, ValueError):
        return  # it takes some values only, such as a degree
    assert np.array_equal(moved, case.kernel(case.X, case.Z)), (
        f"pullback leaves out the gradient of {name}"
    )
