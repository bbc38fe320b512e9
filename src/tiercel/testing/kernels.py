"""What every kernel promises, one small check per promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from tiercel.kernels import Kernel
from tiercel.testing._case import KernelCase, assert_close, assert_raises, numbers
from tiercel.testing._gradients import (
    jacobian_agrees_with_pullback,
    parameter_gradients,
    point_gradients,
    sparse_gradients,
    torch_gradients,
)
from tiercel.testing._spectrum import (
    frequencies_reproduce_kernel,
    spectral_density_fits_frequencies,
)


def check_kernel(kernel: Kernel, n_features: int = 3, random_state: Any = 0) -> None:
    """Raise AssertionError, naming the property, unless the kernel keeps its promises.

    Parameters
    ----------
    kernel : Kernel
    n_features : int
        Columns of the random points that it is tried on.
    random_state : int, numpy Generator or None

    Examples
    --------
    >>> from tiercel.kernels import Gaussian, Linear
    >>> check_kernel(0.5 * Gaussian([1.0, 2.0, 3.0]) + Linear())
    """
    for _, check in kernel_checks(kernel, n_features, random_state):
        check()


def kernel_checks(
    kernel: Kernel, n_features: int = 3, random_state: Any = 0
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield (name, check) for every promise that a kernel makes.

    Examples
    --------
    >>> from tiercel.kernels import Linear
    >>> [name for name, _ in kernel_checks(Linear())][:2]
    ['symmetric', 'positive_semidefinite']
    """
    for check in CHECKS:
        run = partial(_run, check, kernel, n_features, random_state)
        yield check.__name__, run


def _run(
    check: Callable[[KernelCase], None],
    kernel: Kernel,
    n_features: int,
    random_state: Any,
) -> None:
    try:
        check(KernelCase(kernel, n_features, random_state))
    except Exception as error:
        raise AssertionError(f"{kernel!r}: {check.__name__}: {error}") from error


def symmetric(case: KernelCase) -> None:
    """Check that k(x, z) = k(z, x)."""
    K = case.kernel(case.X)
    assert_close(K, K.T, 1e-13, "k(X, X) against its transpose")


def positive_semidefinite(case: KernelCase) -> None:
    """Check that k(X, X) has no negative eigenvalues beyond rounding."""
    K = case.kernel(case.X)
    smallest = np.linalg.eigvalsh(K).min()
    assert smallest >= -1e-12 * np.trace(K), (
        f"k(X, X) has the negative eigenvalue {smallest:.3g}"
    )


def diagonal_agrees(case: KernelCase) -> None:
    """Check ``diagonal`` against the diagonal of the matrix."""
    assert_close(
        case.kernel.diagonal(case.X), case.kernel(case.X).diagonal(), 1e-13, "diagonal"
    )


def missing_z_is_x(case: KernelCase) -> None:
    """Check that ``Z=None`` stands for X."""
    alone, twice = case.kernel(case.X), case.kernel(case.X, case.points_again)
    assert_close(alone, twice, 1e-12, "k(X) against k(X, X.copy())")


def float32_is_near(case: KernelCase) -> None:
    """Check that dtypes pass through and float32 costs only its rounding."""
    kernel, Z = case.kernel, case.Z
    X32 = case.X.astype(np.float32)
    Z32 = Z if kernel.precomputed else Z.astype(np.float32)
    Z64 = Z if kernel.precomputed else Z32.astype(np.float64)
    K, exact = kernel(X32, Z32), kernel(X32.astype(np.float64), Z64)
    assert K.dtype == np.float32, f"float32 came in, {K.dtype} came out"
    assert exact.dtype == np.float64, f"float64 came in, {exact.dtype} came out"
    assert_close(K, exact, 1e-6, "k in float32")


def torch_equals_numpy(case: KernelCase) -> None:
    """Check that tensors give tensors with the same values."""
    if find_spec("torch") is None:
        return
    import torch

    X, Z = torch.from_numpy(case.X), torch.from_numpy(case.Z)
    K = case.kernel(X, Z)
    assert isinstance(K, torch.Tensor), f"a tensor came in, {type(K)} came out"
    assert_close(K.numpy(), case.kernel(case.X, case.Z), 1e-12, "k of tensors")
    diagonal = case.kernel.diagonal(X).numpy()
    assert_close(diagonal, case.kernel.diagonal(case.X), 1e-12, "diagonal of tensors")


def csr_equals_dense(case: KernelCase) -> None:
    """Check sparse input against dense, or that it is refused."""
    kernel, X, Z = case.kernel, *(np.where(a > 0, a, 0.0) for a in (case.X, case.Z))
    rows = sparse.csr_matrix(X)
    if not kernel.takes_sparse:
        assert_raises(TypeError, lambda: kernel(rows), "sparse input")
        return
    columns = sparse.csr_array(Z)
    assert_close(kernel(rows, columns), kernel(X, Z), 1e-12, "k of CSR matrices")
    assert_close(kernel(rows), kernel(X), 1e-12, "k of one CSR matrix")
    diagonal = kernel.diagonal(rows)
    assert_close(diagonal, kernel.diagonal(X), 1e-12, "diagonal of a CSR matrix")


def shift_invariance(case: KernelCase) -> None:
    """Check that a kernel that says so depends on x - z only."""
    if not case.kernel.shift_invariant:
        return
    shift = case.rng.standard_normal(case.n_features)
    moved = case.kernel(case.X + shift, case.Z + shift)
    assert_close(moved, case.kernel(case.X, case.Z), 1e-12, "k of shifted points")


def in_place_profile_equals_profile(case: KernelCase) -> None:
    """Check what the engine calls against ``profile``."""
    for kernel in _leaves(case.kernel):
        if kernel.statistic is None:
            continue
        t = np.append(0.0, case.rng.gamma(1.0, 2.0, 40))
        if kernel.statistic == "dot":
            t = np.append(t, -t)
        expected = kernel.profile(t.copy(), np)
        s = kernel.fold * t
        kernel.profile_in_place(s, np)
        assert_close(s, expected, 1e-13, "profile_in_place")
        if kernel.statistic == "distance" and not kernel.rough:
            below = np.array([kernel.fold * -1e-9])
            kernel.profile_in_place(below, np)
            assert_close(below, expected[:1], 1e-6, "profile_in_place at t = -1e-9")


def rough_where_needed(case: KernelCase) -> None:
    """Check that a distance near 0 costs nothing, or that the kernel is ``rough``."""
    for kernel in _leaves(case.kernel):
        if kernel.statistic == "distance" and not kernel.rough:
            values = kernel.profile(np.array([0.0, 1e-12]), np)
            assert abs(values[1] - values[0]) <= 1e-9 * abs(values[0]), (
                "the profile moves like a root of t near 0: set rough = True"
            )


def fused_expression_equals_profile(case: KernelCase) -> None:
    """Check the Triton expression, read as numpy."""
    for kernel in _leaves(case.kernel):
        if kernel.fused is None:
            continue
        names = {part.split("(")[0] for part in kernel.fused.split("tl.")[1:]}
        if not all(hasattr(np, name) for name in names):
            continue  # numpy cannot stand in for Triton here
        t = np.append(0.0, case.rng.gamma(1.0, 2.0, 40))
        source = kernel.fused.format(**kernel.fused_values())
        values = eval(source, {"tl": np, "t": t})
        assert_close(values, kernel.profile(t, np), 1e-12, "the fused expression")


def parameters_round_trip(case: KernelCase) -> None:
    """Check ``clone``, ``get_params`` and ``set_params``."""
    copy = clone(case.kernel)
    parameters = copy.get_params(deep=True)
    copy.set_params(**parameters)
    assert repr(copy) == repr(case.kernel), f"the clone is {copy!r}"
    exact = case.kernel(case.X, case.Z)
    assert_close(copy(case.X, case.Z), exact, 0.0, "k of a clone")


def bad_parameters_raise(case: KernelCase) -> None:
    """Check that impossible parameters are refused with a ValueError."""
    for name, value in numbers(case.kernel).items():
        bad: list[Any] = [np.nan, np.inf]
        if name.rpartition("__")[2] == "length_scale":
            bad += [0.0, -1.0, np.ones(case.n_features + 1)]
        for replacement in bad:
            kernel = case.with_parameter(name, replacement)
            call = partial(kernel, case.X, case.Z)
            assert_raises(ValueError, call, f"{name}={replacement} (was {value})")


def bad_points_raise(case: KernelCase) -> None:
    """Check that impossible points are refused with a ValueError."""
    kernel = case.kernel
    assert_raises(ValueError, lambda: kernel(np.full((2, 3), np.nan)), "NaN in X")
    assert_raises(ValueError, lambda: kernel(np.empty((0, 3))), "X without rows")
    assert_raises(ValueError, lambda: kernel(case.X[:, 0]), "a 1-D X")
    if not kernel.precomputed:
        assert_raises(
            ValueError, lambda: kernel(case.X, case.Z[:, :-1]), "Z with a column less"
        )


def operations_are_counted(case: KernelCase) -> None:
    """Check that ``operations`` counts, and never falls with columns."""
    few, many = case.kernel.operations(10), case.kernel.operations(1000)
    assert isinstance(few, int), f"operations(10) is {few!r}, not an int"
    assert 0 < few <= many, f"{few} operations at 10 columns, {many} at 1000"


def _leaves(kernel: Any) -> Iterator[Any]:
    """Yield the kernels that sums, products and multiples are made of."""
    parts = [v for v in kernel.get_params(deep=False).values() if isinstance(v, Kernel)]
    if not parts:
        yield kernel
    for part in parts:
        yield from _leaves(part)


CHECKS: tuple[Callable[[KernelCase], None], ...] = (
    symmetric,
    positive_semidefinite,
    diagonal_agrees,
    missing_z_is_x,
    float32_is_near,
    torch_equals_numpy,
    csr_equals_dense,
    shift_invariance,
    in_place_profile_equals_profile,
    rough_where_needed,
    fused_expression_equals_profile,
    parameter_gradients,
    point_gradients,
    jacobian_agrees_with_pullback,
    torch_gradients,
    sparse_gradients,
    frequencies_reproduce_kernel,
    spectral_density_fits_frequencies,
    parameters_round_trip,
    bad_parameters_raise,
    bad_points_raise,
    operations_are_counted,
)
