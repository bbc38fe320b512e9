"""How do I know that mine is right? Conformance checks for kernels of your own.

:func:`check_kernel` runs every check that a kernel of the library passes itself and
raises an AssertionError naming the first property that fails. :func:`kernel_checks`
yields them one by one, so that a test runner can list them::

    @pytest.mark.parametrize("name, check", kernel_checks(MyKernel()))
    def test_my_kernel(name, check):
        check()

Examples
--------
>>> from tiercel.kernels import DistanceKernel
>>> class InverseMultiquadric(DistanceKernel):
...     def __init__(self, length_scale=1.0):
...         self.length_scale = length_scale
...
...     def profile(self, t, xp):
...         return (1.0 + t) ** -0.5
...
...     def profile_derivative(self, t, xp):
...         return -0.5 * (1.0 + t) ** -1.5
>>> check_kernel(InverseMultiquadric(length_scale=2.0))
"""

from __future__ import annotations

from tiercel.testing.kernels import check_kernel, kernel_checks

__all__ = ["check_kernel", "kernel_checks"]
