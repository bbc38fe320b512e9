"""The state that the recursive learners share, and what can be done to it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from tiercel._state import saved_array, saved_int
from tiercel.linalg import FactorisationError, cholesky_update_rows
from tiercel.stream import _loops
from tiercel.stream._maps import StreamMap

FEW = 32  # rows that rotations add faster than Householder blocks
BLOCK = 512  # rows that one Householder factorisation takes in
RIDGES = {8: (1e-200, 1e200), 4: (1e-60, 1e60)}  # by bytes: roots have squares
MOST_SAMPLES = 2**53


class Recursion:
    """Least squares over features, with a regulariser, that follows a stream.

    R'R = sum of w phi phi' + diag(ridge) and R'Z = sum of w phi y', exactly, after any
    number of samples in any order (Gijsberts 2011, Alg. 4.1; Camoriano 2017, 7.4.2).

    Parameters
    ----------
    map : StreamMap
        What makes the features.
    n_outputs : int
    ridge : array of shape (F,)
        What each squared weight costs; 0 for a weight that goes free.
    dtype : dtype
        Of the state.
    forgetting : float
        Factor on the weight of all samples whenever a new one comes in. The
        regulariser does not fade with them: each sample restores that of a few
        features, in turn, so that it never falls below half.
    noise : float
        Standard deviation of the targets' noise, where it is known: then errors are
        counted by how many predicted standard deviations they reach.
    """

    def __init__(
        self,
        map: StreamMap,
        n_outputs: int,
        ridge: np.ndarray,
        dtype: np.dtype,
        forgetting: float = 1.0,
        noise: float = 0.0,
    ) -> None:
        size = map.n_features
        least, most = RIDGES[dtype.itemsize]
        if not ((ridge == 0.0) | ((ridge >= least) & (ridge <= most))).all():
            raise ValueError(
                f"a ridge (in a Gaussian process: the squared noise) must be from "
                f"{least} to {most} in {dtype}"
            )
        refreshed = 0
        if forgetting < 1.0:
            refreshed = min(size, math.ceil(size * math.log2(1.0 / forgetting)))
        self.map = map
        self.state = _loops.State(
            np.diag(np.sqrt(ridge)).astype(dtype),
            np.zeros((size, n_outputs), dtype),
            np.zeros((2, n_outputs)),
            np.zeros(n_outputs),
            np.zeros(n_outputs, dtype),
            np.array(ridge, np.float64),
            np.array(ridge, np.float64),
            float(forgetting),
            refreshed,
            float(noise),
            np.zeros((4, n_outputs)),
        )
        self.seen = 0
        self.x, self.y = np.zeros(map.n_taken), np.zeros(n_outputs)
        self.prepare()

    def prepare(self) -> None:
        """Compile for the types of the state; from the disk where they are known."""
        of, state, x, y = self.map.compiled, self.state, self.x, self.y
        self._learn = _loops.learn_sample.entry(of, state, x, y, 1.0, 0.0, 0)
        self._predict = _loops.predict_sample.entry(of, state, x, 0.0)
        self._weights: np.ndarray | None = None

    def __getstate__(self) -> dict[str, Any]:
        kept = dict(vars(self))
        for name in ("_learn", "_predict", "_weights"):
            kept.pop(name)
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        self.map.compiled = _loops.SampleMap(*map(own, self.map.compiled))
        self.state = _loops.State(*map(own, self.state))
        self.x, self.y = own(self.x), own(self.y)
        self.prepare()

    @property
    def n_outputs(self) -> int:
        """How many targets a sample has."""
        return self.state.Z.shape[1]

    @property
    def mean(self) -> np.ndarray:
        """The last prediction; the next call overwrites it."""
        return self.state.means[0]

    # --- one sample ------------------------------------------------------------

    def predict(self) -> float:
        """Predict the sample in ``self.x`` into ``self.mean``; return its leverage."""
        trend = self.seen * self.map.trend_step
        status, leverage = self._predict(self.map.compiled, self.state, self.x, trend)
        if status:
            raise ValueError(REJECTED)
        return leverage

    def learn(self, weight: float = 1.0) -> float:
        """Predict the sample in ``self.x``, learn ``self.y``; return its leverage."""
        status, leverage = self._learn(
            self.map.compiled,
            self.state,
            self.x,
            self.y,
            weight,
            self.seen * self.map.trend_step,
            self.seen,
        )
        if status:
            raise ValueError(REJECTED)
        self.seen += 1
        self._weights = None
        return leverage

    def remove(self, weight: float = 1.0) -> None:
        """Take the sample in ``self.x`` and ``self.y`` out again."""
        of = self.map.compiled
        if not _loops.map_sample(of, self.x, 0.0) or not np.isfinite(self.y).all():
            raise ValueError(REJECTED)
        if self.seen < 1:
            raise FactorisationError("there is no sample left to remove")
        if weight > 0 and self._is_last(weight):
            seen = self.seen
            self._check_leverage(weight)
            self.clear()
            self.seen = seen
        elif weight > 0:
            self._remove(of.phi, self.y, weight)
        self.seen -= 1

    def _is_last(self, weight: float) -> bool:
        """Tell whether no sample is left when one of this weight has gone.

        An intercept, which no regulariser holds, knows the weight of all samples.
        """
        state = self.state
        rest = float(state.R[0, 0]) ** 2 - weight
        rounding = math.sqrt(np.finfo(state.R.dtype).eps) * weight
        return self.seen == 1 or (state.ridge[0] == 0.0 and rest <= rounding)

    def _check_leverage(self, weight: float) -> None:
        left = 1.0 - weight * self.predict()
        if not left > -math.sqrt(np.finfo(self.state.R.dtype).eps):
            raise FactorisationError(NEVER_LEARNED.format(left))

    def _remove(self, phi: np.ndarray, y: np.ndarray, weight: float) -> None:
        turns = np.empty((3, len(phi)))
        eps = float(np.finfo(phi.dtype).eps)
        status, left = _loops.remove_features(self.state, phi, y, weight, turns, eps)
        if status:
            raise FactorisationError(NEVER_LEARNED.format(left))
        self._weights = None

    # --- many rows -------------------------------------------------------------

    def follow(
        self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Learn taken rows one by one; return predictions before them and leverages."""
        means, leverages = np.empty((len(X), self.n_outputs)), np.empty(len(X))
        taken = np.ascontiguousarray(X, np.float64)
        of, state, step = self.map.compiled, self.state, self.map.trend_step
        Y = np.ascontiguousarray(Y, np.float64)
        done = _loops.learn_rows(
            of, state, taken, Y, weights, step, self.seen, means, leverages
        )
        self.seen += done
        self._weights = None
        if done < len(X):
            raise ValueError(f"row {done}: {REJECTED}; the rows before it were learned")
        return means, leverages

    def check_rows(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        """Raise ValueError where rows cannot be learned, before any is."""
        self.check_taken(self.map.rows_taken(X), Y, weights)

    def check_taken(
        self, taken: np.ndarray, Y: np.ndarray, weights: np.ndarray
    ) -> None:
        """The same for what is taken from rows, if it is of a size to be squared."""
        self.map.check_size(Y, "y")
        if weights.max(initial=0.0) > 1.0:
            root = np.sqrt(weights)[:, None]
            if self.map.compiled.kind == _loops.LINEAR:
                self.map.check_size(root * taken, "the root of sample_weight times X")
            self.map.check_size(root * Y, "the root of sample_weight times y")

    def learn_rows(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        """Learn rows, the same as one by one; many at once by LAPACK's ``tpqrt``."""
        taken = self.map.rows_taken(X)
        if len(X) <= FEW or self.state.forgetting < 1.0:
            self.follow(taken, Y, weights)
            return
        for start in range(0, len(X), BLOCK):
            rows = slice(start, start + BLOCK)
            root = np.sqrt(weights[rows])[:, None]
            phi = self.map.rows(taken[rows], self.seen + np.arange(len(root)))
            self.absorb(root * phi, root * Y[rows])
            self.seen += len(phi)

    def absorb(self, phi: np.ndarray, targets: np.ndarray) -> None:
        """Rotate rows of weighted features and targets in."""
        size, outputs = self.state.Z.shape
        joint = np.zeros((size + outputs,) * 2, self.state.R.dtype)
        joint[:size, :size], joint[:size, size:] = self.state.R, self.state.Z
        cholesky_update_rows(joint, np.hstack([phi, targets]))
        self.state.R[...], self.state.Z[...] = joint[:size, :size], joint[:size, size:]
        left = np.triu(joint[size:, size:]).astype(np.float64)
        self.state.rss[...] += (left**2).sum(0)
        self._weights = None

    def merge(self, other: Recursion) -> None:
        """Learn all that another recursion over the same features has learned.

        Its rows [R Z] stand for its samples and its regulariser; the latter is taken
        out again. Where both have the same ridge it is at most two thirds of what is
        there by then, and no digits are lost.
        """
        state, before = self.state, self.arrays()
        theirs = other.arrays()
        self.absorb(other.state.R, other.state.Z)
        state.rss[...] += theirs["rss"]
        try:
            for i in np.flatnonzero(theirs["prior"]):
                phi = np.zeros(len(state.R), state.R.dtype)
                phi[i] = math.sqrt(theirs["prior"][i])
                self._remove(phi, np.zeros(self.n_outputs), 1.0)
        except FactorisationError:
            self.restore(before)
            raise FactorisationError(
                "the other model's ridge is so much larger than what the two have "
                "learned that it cannot be taken out again; merge into that model, or "
                "give both the same ridge. The model is unchanged"
            ) from None
        self.seen += theirs["seen"]
        self.restore_ridge()

    def restore_ridge(self) -> None:
        """Bring the regulariser of all features back to what forgetting took of it."""
        missing = np.maximum(self.state.ridge - self.state.prior, 0.0)
        if missing.any():
            rows = np.diag(np.sqrt(missing))
            self.absorb(rows, np.zeros((len(rows), self.n_outputs)))
            self.state.prior[:] = self.state.ridge

    def take_over(self, heir: Recursion) -> None:
        """Hold what an heir has learned, and leave it empty; the last mean stays."""
        heir.mean[:] = self.mean
        self.state, heir.state = heir.state, self.state
        self.seen, self._weights = heir.seen, None
        heir.clear()

    def clear(self) -> None:
        """Forget all samples."""
        state = self.state
        for array in (state.R, state.Z, state.rss, state.within):
            array[...] = 0.0
        np.fill_diagonal(state.R, np.sqrt(state.ridge))
        state.prior[:] = state.ridge
        self.seen, self._weights = 0, None

    # --- what was learned ------------------------------------------------------

    def weights(self) -> np.ndarray:
        """Return W (F, T), the solution of R W = Z."""
        if self._weights is None:
            R, Z = self.state.R, self.state.Z
            if R[0, 0] == 0:  # an intercept that has seen no sample
                self._weights = np.zeros_like(Z)
            else:
                self._weights = solve_triangular(R, Z, check_finite=False)
        return self._weights

    def means(self, X: np.ndarray) -> np.ndarray:
        """Return the predictions for rows, as if they came next."""
        out = np.empty((len(X), self.n_outputs), self.state.R.dtype)
        weights = self.weights()
        for start in range(0, len(X), BLOCK):
            rows = slice(start, start + BLOCK)
            taken = self.map.rows_taken(X[rows])
            out[rows] = self.map.rows(taken, self.seen) @ weights
        return out

    def leverages(self, X: np.ndarray) -> np.ndarray:
        """Return phi'(R'R)^-1 phi for rows, as if they came next."""
        out = np.empty(len(X))
        if self.state.R[0, 0] == 0:
            out[:] = np.inf
            return out
        for start in range(0, len(X), BLOCK):
            rows = slice(start, start + BLOCK)
            phi = self.map.rows(self.map.rows_taken(X[rows]), self.seen)
            v = solve_triangular(self.state.R, phi.T, trans="T", check_finite=False)
            out[rows] = (v.astype(np.float64) ** 2).sum(0)
        return out

    # --- growth, and a life after the process ----------------------------------

    def add_outputs(self, count: int) -> None:
        """Make room for further targets, which were 0 for all samples so far."""
        grown: dict[str, Any] = {}
        for name in ("Z", "means", "rss", "target", "within"):
            old = getattr(self.state, name)
            new = np.zeros((*old.shape[:-1], old.shape[-1] + count), old.dtype)
            new[..., : old.shape[-1]] = old
            grown[name] = new
        self.state = self.state._replace(**grown)
        self.y = np.zeros(self.n_outputs)
        self._weights = None

    def arrays(self) -> dict[str, Any]:
        """Return what it takes to resume bit for bit."""
        state = self.state
        return {
            "factor": state.R[np.triu_indices(len(state.R))],
            "rotated": state.Z.copy(),
            "rss": state.rss.copy(),
            "prior": state.prior.copy(),
            "within": state.within.copy(),
            "seen": self.seen,
        }

    def restore(self, kept: dict[str, Any]) -> None:
        """Take up what :meth:`arrays` gave; refuse what does not fit."""
        state, size = self.state, len(self.state.R)
        into = {"rotated": state.Z, "rss": state.rss, "prior": state.prior}
        into["within"] = state.within
        factor = saved_array(kept, "factor", (size * (size + 1) // 2,))
        held = {name: saved_array(kept, name, into[name].shape) for name in into}
        seen = saved_int(kept, "seen", most=MOST_SAMPLES)
        diagonal = factor[np.cumsum(np.r_[0, np.arange(size, 1, -1)])]
        if not np.all((diagonal > 0) | ((diagonal == 0) & (state.ridge == 0))):
            raise ValueError("the saved factor's diagonal must be above 0")
        for name in ("rss", "prior", "within"):
            if held[name].min(initial=0.0) < 0:
                raise ValueError(f"the saved {name} must not be below 0")
        state.R[np.triu_indices(size)] = factor
        for name, array in into.items():
            array[...] = held[name]
        self.seen, self._weights = seen, None


def warm_up(dtype: np.dtype) -> None:
    """Compile every loop for a state of this dtype, or read it from the disk."""
    tiny = Recursion(StreamMap(None, 1, dtype), 1, np.ones(1), dtype)
    tiny.learn()
    tiny.predict()
    tiny.follow(np.ones((1, 1)), np.ones((1, 1)), np.ones(1))
    tiny.absorb(np.ones((1, 1)), np.ones((1, 1)))
    tiny.x[:], tiny.y[:] = 1.0, 1.0
    tiny.remove()
    _loops.wave(np.zeros(1), np.zeros(1), np.zeros(1), 1.0)


def own(value: Any) -> Any:
    """Return arrays that others lent us for reading as our own."""
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        return value.copy()
    return value


REJECTED = (
    "the sample holds NaN, infinite or absurdly large values; the model is unchanged"
)
NEVER_LEARNED = (
    "this sample cannot be removed (1 - its leverage = {:.3g}): it was never learned, "
    "or with another weight, or is all that is known of some feature, with a ridge too "
    "small to go back to; the model is unchanged"
)
