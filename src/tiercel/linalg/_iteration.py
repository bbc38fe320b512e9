"""The state of a conjugate gradient and the decisions taken on it, column by column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tiercel._arrays import is_torch, namespace, to_numpy
from tiercel.linalg._best import Best
from tiercel.linalg._checks import epsilon
from tiercel.linalg._columns import (
    choose,
    divide,
    dots,
    nonzero,
    norms,
    rescale,
    safe_norms,
)
from tiercel.linalg.solution import GRAVITY, Outcome, Solution

CHECK_EVERY = 20  # iterations between two looks at the true residual b - A x
DRIFT = 0.5  # share of the true residual that the recurrence may have missed
FLAT = 0.1  # curvature, in units of eps, below which a direction is a null direction


class Iteration:
    """One run: n x T arrays stay where B lives, decisions are made in numpy.

    Every column is scaled to ||b|| = 1, which makes residual norms relative and keeps
    tiny or huge right-hand sides away from under- and overflow. A column is *running*
    until it has an outcome, and *active* unless it rests because the recurrence claims
    that it is done, which the next check confirms or denies.
    """

    def __init__(
        self,
        operator: Callable[[Any], Any],
        preconditioner: Callable[[Any], Any] | None,
        B: Any,
        X0: Any,
        tol: float,
    ) -> None:
        self.xp = xp = namespace(B)
        self.vector = B.ndim == 1
        self.operator = self._adapt(operator, "operator")
        self.precondition = (
            (lambda R: R)
            if preconditioner is None
            else self._adapt(preconditioner, "preconditioner")
        )
        self.tol = tol
        self.eps = epsilon(B)
        B = B[:, None] if self.vector else B
        sizes = safe_norms(B)
        self.scale = nonzero(sizes)
        self.B = divide(B, self.scale)
        self.R, self.X = self.B, xp.zeros_like(self.B)
        residual = np.where(to_numpy(sizes) > 0, 1.0, 0.0)
        if X0 is not None:
            X0 = xp.reshape(xp.astype(X0, B.dtype), B.shape)
            self.X = self._only(residual > 0, divide(X0, self.scale))
            self.R = self.B - self.operator(self.X)
            residual = to_numpy(norms(self.R))
        self.history = [residual]
        self.best = Best(self.X, residual)
        self.outcomes = np.full(len(residual), None, dtype=object)
        self.wrong = np.zeros(len(residual), dtype=bool)  # the recurrence, last time
        self.steepest = xp.zeros_like(self.scale)  # largest Rayleigh quotient met
        self.P: Any = self.R
        self.rz: Any = None  # <r, preconditioned r> of each column, float64

    @property
    def count(self) -> int:
        """Steps taken."""
        return len(self.history) - 1

    @property
    def running(self) -> np.ndarray:
        """Columns without an outcome."""
        return np.array([outcome is None for outcome in self.outcomes])

    @property
    def claimed(self) -> np.ndarray:
        """Columns that the recurrence, or the last check, found below the tolerance."""
        return self.history[-1] <= self.tol

    @property
    def active(self) -> np.ndarray:
        """Columns that the next step moves."""
        return self.running & ~self.claimed

    def end(self, which: np.ndarray, outcome: Outcome) -> None:
        """Give columns their outcome."""
        self.outcomes[which] = outcome

    def run(self, max_iter: int, callback: Callable[..., Any] | None) -> None:
        """Step until every column has an outcome or the iterations are used up."""
        self.end(~np.isfinite(self.history[0]), Outcome.DIVERGED)
        self.end(self.claimed, Outcome.CONVERGED)
        self._turn(self.running)
        while self.running.any() and self.count < max_iter:
            self._step()
            if not self.active.any() or self.count % CHECK_EVERY == 0:
                self._check()
            if callback is not None and callback(
                self.count, self.history[-1].copy(), self._outside(self.X)
            ):
                self.end(self.running, Outcome.INTERRUPTED)
        self._measure_best()

    def solution(self) -> Solution:
        """Return the best iterates and what there is to say about them."""
        residuals = self.best.residual
        self.end(self.running, Outcome.MAX_ITERATIONS)
        self.end(self.best.measured <= self.tol, Outcome.CONVERGED)
        outcome = max(self.outcomes, key=GRAVITY.index)
        short = int(np.sum(~(residuals <= self.tol)))
        figures = f"iterations: {self.count}"
        if short:
            figures += (
                f"; columns above tol={self.tol:.3g}: {short} of {len(residuals)}; "
                f"largest relative residual: {residuals.max():.3g}"
            )
        return Solution(
            self._outside(self.best.X),
            outcome,
            self.count,
            residuals,
            np.stack(self.history),
            f"{outcome.value} ({figures})",
        )

    def _step(self) -> None:
        """Move the active columns along their directions; wait for the device once."""
        xp, active = self.xp, self.active
        AP = self.operator(self.P)
        with np.errstate(all="ignore"):
            curvature = dots(self.P, AP)
            quotient = curvature / dots(self.P, self.P)
            steeper = quotient > self.steepest
            self.steepest = xp.where(steeper, quotient, self.steepest)
            slope = quotient / self.steepest
            forward = slope > FLAT * self.eps
            step = xp.where(forward, self.rz / curvature, xp.zeros_like(curvature))
            X = self.X + rescale(self.P, step)
            R = self.R - rescale(AP, step)
            sizes = norms(R)
            R = xp.where(xp.isfinite(sizes), R, xp.zeros_like(R))
            Z = self.precondition(R)
            rz = dots(R, Z)
            P = Z - rescale(self.P, step * dots(Z, AP) / self.rz)
            report = to_numpy(xp.stack([curvature, sizes, rz, slope]))
        moved = active & np.isfinite(report[:3]).all(axis=0)
        self.history.append(np.where(active, report[1], self.history[-1]))
        self.best.claim(moved, X, report[1])
        self.X, self.R, self.rz = X, R, rz
        self.end(active & ~moved, Outcome.DIVERGED)
        self._judge(moved, *report[2:])
        self.P = self._only(self.active, P)

    def _judge(self, moved: np.ndarray, rz: np.ndarray, slope: np.ndarray) -> None:
        """End the columns that have no direction left.

        Curvature within the rounding of a product is a null direction, not a negative
        one: the operator is singular there, and the residual as small as it gets.
        """
        rounding = 10 * np.sqrt(self.B.shape[0]) * self.eps
        self.end(moved & ~(slope > FLAT * self.eps), Outcome.STAGNATED)
        self.end(moved & (slope < -rounding), Outcome.INDEFINITE)
        self.end(moved & (rz <= 0) & ~self.claimed, Outcome.INDEFINITE)

    def _check(self) -> None:
        """Measure the true residual, and restart where the recurrence was wrong."""
        R = self.B - self.operator(self.X)
        with np.errstate(all="ignore"):
            true, missed = to_numpy(self.xp.stack([norms(R), norms(R - self.R)]))
        running, before = self.running, self.best.measured
        self.best.measure(running, self.X, true)
        self.best.settle(running & (self.best.residual == self.history[-1]))
        self.end(running & (true <= self.tol), Outcome.CONVERGED)
        wrong = self.running & (self.claimed | ~(missed <= DRIFT * true))
        if (wrong & self.best.unmeasured()).any():
            self._measure_best()
        # A restart that gained nothing would be followed by others like it.
        gained = self.best.measured < before
        self.end(wrong & self.wrong & ~gained, Outcome.STAGNATED)
        self.history[-1] = np.where(running, true, self.history[-1])
        self.wrong = wrong
        # Replacing a residual without need would disturb the conjugacy of directions.
        restart = self.running & wrong
        self.R = choose(restart, R, self.R)
        self._turn(restart)

    def _turn(self, restart: np.ndarray) -> None:
        """Point columns along their preconditioned residual."""
        if not restart.any():
            return
        Z = self.precondition(self.R)
        with np.errstate(all="ignore"):
            self.rz = dots(self.R, Z)
        rz = to_numpy(self.rz)
        self.end(restart & ~np.isfinite(rz), Outcome.DIVERGED)
        self.end(restart & (rz <= 0), Outcome.INDEFINITE)
        self.P = self._only(self.active, choose(restart, Z, self.P))

    def _measure_best(self) -> None:
        """Put the best iterates that were only claimed to the proof."""
        claims = self.best.unmeasured()
        if claims.any():
            true = to_numpy(norms(self.B - self.operator(self.best.X)))
            self.best.measure(claims, self.best.X, true)
            self.best.settle(claims)

    def _outside(self, X: Any) -> Any:
        """Return ``X`` in the caller's scale and shape."""
        X = rescale(X, self.scale)
        return X[:, 0] if self.vector else X

    def _adapt(self, function: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
        """Wrap a callable on the caller's shape as one on (n, T) that is checked."""

        def apply(V: Any) -> Any:
            out = function(V[:, 0] if self.vector else V)
            if is_torch(out) != is_torch(V):
                raise TypeError(f"the {name} must return the kind of array it is given")
            out = out if is_torch(out) else np.asarray(out)
            expected = V.shape[:1] if self.vector else V.shape
            if out.shape != expected:
                raise ValueError(
                    f"the {name} returned shape {tuple(out.shape)}, "
                    f"not the shape {tuple(expected)} of its argument"
                )
            out = out[:, None] if self.vector else out
            return self.xp.astype(out, V.dtype, copy=False)

        return apply

    def _only(self, which: np.ndarray, V: Any) -> Any:
        """Zero the columns of ``V`` that are not in ``which``, NaN or not."""
        return choose(which, V, self.xp.zeros_like(V))
