"""The state of a conjugate gradient and the decisions taken on it, column by column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tiercel._arrays import is_torch, namespace, to_numpy
from tiercel.linalg._checks import epsilon
from tiercel.linalg._columns import divide, dots, norms, rescale, safe_norms
from tiercel.linalg.solution import GRAVITY, Outcome, Solution

CHECK_EVERY = 20  # iterations between two looks at the true residual b - A x
# Iterations without a better residual before a column is given up. The residual of a
# healthy iteration may rise for long, but in exact arithmetic it ends within n steps.
PATIENCE = (100, 500)
DRIFT = 0.5  # share of the true residual that the recurrence may have missed


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
        self.preconditioner = preconditioner and self._adapt(
            preconditioner, "preconditioner"
        )
        self.tol = tol
        self.patience = min(max(PATIENCE[0], 2 * B.shape[0]), PATIENCE[1])
        B = B[:, None] if self.vector else B
        sizes = safe_norms(B)
        zero = to_numpy(sizes) == 0
        self.scale = xp.where(sizes > 0, sizes, xp.ones_like(sizes))
        self.B = divide(B, self.scale)
        self.X = xp.zeros_like(self.B)
        self.from_zero = X0 is None
        if not self.from_zero:
            X0 = xp.reshape(xp.astype(X0, B.dtype), B.shape)
            self.X = self._only(~zero, divide(X0, self.scale))
        residual = np.where(zero, 0.0, 1.0 if self.from_zero else np.inf)
        none = np.zeros(len(zero), dtype=bool)
        self.history = [residual]
        self.outcomes = np.full(len(zero), None, dtype=object)
        self.claimed = none
        self.drifted = none
        self.best, self.best_residual = self.X, residual
        self.confirmed, self.confirmed_residual = self.X, residual
        self.milestone, self.milestone_at = residual, none.astype(int)
        self.moved_at, self.best_at = none.astype(int), none.astype(int)
        self.steepest = none.astype(float)  # largest Rayleigh quotient met
        self.R: Any = self.B
        self.P: Any = self.B
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
    def active(self) -> np.ndarray:
        """Columns that the next step moves."""
        return self.running & ~self.claimed

    def end(self, which: np.ndarray, outcome: Outcome) -> None:
        """Give columns their outcome."""
        self.outcomes[which] = outcome

    def run(self, max_iter: int, callback: Callable[..., Any] | None) -> None:
        """Step until every column has an outcome or the iterations are used up."""
        self._start()
        while self.running.any() and self.count < max_iter:
            self._step()
            if not self.active.any() or self.count % CHECK_EVERY == 0:
                self._check()
            if callback is not None and callback(
                self.count, self.history[-1].copy(), self._outside(self.X)
            ):
                self.end(self.running, Outcome.INTERRUPTED)

    def confirm(self) -> None:
        """Measure the best iterates that only the recurrence has seen."""
        unseen = self.best_residual < self.confirmed_residual
        if unseen.any():
            true = to_numpy(norms(self.B - self.operator(self.best)))
            self._record(unseen & (true < self.confirmed_residual), self.best, true)
        self.best, self.best_residual = self.confirmed, self.confirmed_residual

    def solution(self) -> Solution:
        """Return the best iterates and what there is to say about them."""
        residuals = self.best_residual
        self.end(self.running, Outcome.MAX_ITERATIONS)
        self.end(residuals <= self.tol, Outcome.CONVERGED)
        outcome = max(self.outcomes, key=GRAVITY.index)
        short = int(np.sum(residuals > self.tol))
        figures = f"after {self.count} iterations"
        if short:
            figures += (
                f", {short} of {len(residuals)} columns above tol={self.tol:.3g}, "
                f"largest relative residual {residuals.max():.3g}"
            )
        return Solution(
            self._outside(self.best),
            outcome,
            self.count,
            residuals,
            np.stack(self.history),
            f"{outcome.value} ({figures})",
        )

    def _start(self) -> None:
        if not self.from_zero:
            self.R = self.B - self.operator(self.X)
        residual = to_numpy(norms(self.R))
        self.history = [residual]
        self.best_residual = self.confirmed_residual = self.milestone = residual
        self.end(~np.isfinite(residual), Outcome.DIVERGED)
        self.end(residual <= self.tol, Outcome.CONVERGED)
        if self.running.any():
            self._turn(np.ones_like(self.claimed))

    def _step(self) -> None:
        """Move the active columns along their directions; wait for the device once."""
        xp = self.xp
        AP = self.operator(self.P)
        with np.errstate(all="ignore"):
            curvature, length = dots(self.P, AP), dots(self.P, self.P)
            forward = curvature > 0
            step = xp.where(forward, self.rz / curvature, xp.zeros_like(curvature))
            X = self.X + rescale(self.P, step)
            R = self.R - xp.where(forward, rescale(AP, step), xp.zeros_like(AP))
            sizes = norms(R)
            R = xp.where(xp.isfinite(sizes), R, xp.zeros_like(R))
            Z = self._precondition(R)
            rz = dots(R, Z)
            beta = -step * dots(Z, AP) / self.rz  # 0 is a restart: never go back
            P = Z + rescale(self.P, xp.where(beta > 0, beta, xp.zeros_like(beta)))
            report = xp.stack([sizes, rz, curvature, curvature / length])
        residual, *rest = to_numpy(report)
        finite = np.isfinite(residual) & np.isfinite(rest[0]) & np.isfinite(rest[1])
        self.X, self.R, self.rz = self._choose(finite, X, self.best), R, rz
        active = self.active
        self.history.append(np.where(active, residual, self.history[-1]))
        self._keep(active & finite, residual)
        self.end(active & ~finite, Outcome.DIVERGED)
        self._judge(active & finite, residual, *rest)
        self.P = self._only(self.active, P)

    def _keep(self, active: np.ndarray, residual: np.ndarray) -> None:
        """Remember what got better, and rest what the recurrence claims is done."""
        self.moved_at = np.where(active, self.count, self.moved_at)
        better = active & (residual < self.best_residual)
        self.best = self._choose(better, self.X, self.best)
        self.best_residual = np.where(better, residual, self.best_residual)
        self.best_at = np.where(better, self.count, self.best_at)
        self.claimed = self.claimed | (active & (residual <= self.tol))

    def _judge(
        self,
        active: np.ndarray,
        residual: np.ndarray,
        rz: np.ndarray,
        curvature: np.ndarray,
        quotient: np.ndarray,
    ) -> None:
        """End the columns that have no direction left.

        Curvature within the rounding of a product is a null direction, not a negative
        one: the operator is singular there, and the residual as small as it gets.
        """
        rounding = 10 * np.sqrt(self.B.shape[0]) * epsilon(self.B) * self.steepest
        flat = active & (curvature <= 0)
        negative = flat & (quotient < -rounding)
        negative |= active & (rz <= 0) & ~self.claimed
        self.end(flat, Outcome.STAGNATED)
        self.end(negative, Outcome.INDEFINITE)
        self.steepest = np.fmax(self.steepest, np.where(active, quotient, 0.0))

    def _check(self) -> None:
        """Measure the true residual, and restart where the recurrence has lost it."""
        R = self.B - self.operator(self.X)
        with np.errstate(all="ignore"):
            report = [norms(R), norms(R - self.R), norms(self.X)]
            true, missed, size = to_numpy(self.xp.stack(report))
        running, before = self.running, self.confirmed_residual
        self._record(running & (true < before), self.X, true)
        drifted = running & ~(missed <= DRIFT * true)
        measured = drifted | (running & (self.best_at == self.moved_at))
        self.best = self._choose(measured, self.confirmed, self.best)
        self.best_residual = np.where(
            measured, self.confirmed_residual, self.best_residual
        )
        self.history[-1] = np.where(running, true, self.history[-1])
        self.end(running & ~np.isfinite(true), Outcome.DIVERGED)
        self.end(running & (true <= self.tol), Outcome.CONVERGED)
        level = 10 * epsilon(self.B) * self.steepest * size  # of eps ||A|| ||x||
        stuck = (true <= level) | (self.drifted & ~(2 * self.best_residual < before))
        self._give_up(true, drifted & stuck)
        restart = self.claimed | drifted
        # Replacing a residual without need would disturb the conjugacy of directions.
        self.R, self.drifted = self._choose(restart, R, self.R), drifted
        self.claimed = np.zeros_like(self.claimed)
        if self.running.any():
            self._turn(restart)

    def _give_up(self, true: np.ndarray, stuck: np.ndarray) -> None:
        """End the columns that no restart will help, or that are out of patience."""
        moved = self.best_residual < 0.9 * self.milestone
        self.milestone = np.where(moved, self.best_residual, self.milestone)
        self.milestone_at = np.where(moved, self.count, self.milestone_at)
        tired = self.count - self.milestone_at >= self.patience
        hopeless = self.running & (stuck | tired)
        self.end(hopeless, Outcome.STAGNATED)
        self.end(hopeless & (true > 10 * self.best_residual), Outcome.DIVERGED)

    def _turn(self, restart: np.ndarray) -> None:
        """Point the columns that restart along their preconditioned residual."""
        Z = self._precondition(self.R)
        with np.errstate(all="ignore"):
            self.rz = dots(self.R, Z)
        rz = to_numpy(self.rz)
        self.end(self.running & ~np.isfinite(rz), Outcome.DIVERGED)
        self.end(self.running & (rz <= 0), Outcome.INDEFINITE)
        self.P = self._only(self.active, self._choose(restart, Z, self.P))

    def _record(self, which: np.ndarray, X: Any, true: np.ndarray) -> None:
        """Keep columns of ``X`` whose true residual is the best so far."""
        self.confirmed = self._choose(which, X, self.confirmed)
        self.confirmed_residual = np.where(which, true, self.confirmed_residual)

    def _precondition(self, R: Any) -> Any:
        return R if self.preconditioner is None else self.preconditioner(R)

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
        return self._choose(which, V, self.xp.zeros_like(V))

    def _choose(self, which: np.ndarray, this: Any, other: Any) -> Any:
        """Take columns ``which`` of ``this`` and the others of ``other``."""
        if which.all():
            return this
        if not which.any():
            return other
        mask = namespace(this).asarray(which, device=this.device)
        return self.xp.where(mask, this, other)
