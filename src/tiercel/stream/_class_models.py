"""Recursions over one set of classes that grows, one for each candidate ridge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tiercel._state import saved_array, saved_int
from tiercel.stream import _recoding
from tiercel.stream._held_out import HeldOut
from tiercel.stream._labels import Classes
from tiercel.stream._maps import StreamMap
from tiercel.stream._recursion import MOST_SAMPLES, Recursion

BLOCK = 4096  # rows whose one-hot code is made at a time


class ClassModels:
    """What an incremental classifier knows: its classes, and least squares for each.

    The targets are one-hot codes, one output per class and some in reserve. Whatever
    may be wrong with a sample is found before anything changes.

    Parameters
    ----------
    inputs : StreamMap
        What makes the features.
    ridges, recodes : arrays of shape (L,) and (A,)
        Candidates; recodings in rising order.
    hold_out : int or None
        Which sample of a class is held out, if there is a choice.
    enough : int
        Held-out samples of a class that it takes to judge by.
    allowed_loss : float
        Accuracy that recoding may cost.
    dtype : dtype
        Of the state.
    """

    def __init__(
        self,
        inputs: StreamMap,
        ridges: np.ndarray,
        recodes: np.ndarray,
        hold_out: int | None,
        enough: int,
        allowed_loss: float,
        dtype: np.dtype,
    ) -> None:
        self.inputs = map = inputs
        intercept = bool(inputs.compiled.intercept)
        if inputs.transformer is not None:  # asked once, not for each ridge
            map = StreamMap(None, inputs.n_taken, dtype, intercept)
        self.map, self.ridges, self.recodes = map, ridges, recodes
        self.enough, self.allowed_loss = enough, allowed_loss
        self.hold_out = hold_out if len(ridges) * len(recodes) > 1 else None
        self.recursions = []
        for ridge in ridges:
            each = np.full(map.n_features, float(ridge))
            each[: int(intercept)] = 0.0
            self.recursions.append(Recursion(map, 1, each, dtype))
        self.classes = Classes()
        self.counts = np.zeros(0)  # learned, by weight
        self.turns = np.zeros(0, np.int64)  # samples that came with a weight
        self.seen = 0
        self.held = HeldOut(map.n_features, dtype)
        self.chosen, self.recode = 0, float(recodes[0])
        self.accuracy: np.ndarray | None = None
        self.validated = np.zeros(0, np.int64)
        self._refresh()

    # --- classes ---------------------------------------------------------------

    def enrol(self, labels: list[Any]) -> None:
        """Make classes known; those that are already stay as they are."""
        self.classes.extend(labels)
        missing = len(self.classes) - len(self.counts)
        if missing:
            self.make_room(len(self.classes))
            self.counts = np.append(self.counts, np.zeros(missing))
            self.turns = np.append(self.turns, np.zeros(missing, np.int64))
            self._refresh()

    def make_room(self, columns: int) -> None:
        """Have that many columns in reserve, twice as many if there were too few."""
        have = self.recursions[0].n_outputs
        if columns > have:
            for recursion in self.recursions:
                recursion.add_outputs(max(columns - have, have))

    def _refresh(self) -> None:
        self._factors = _recoding.factors(self.counts, self.recode)
        self._unseen = np.flatnonzero(self.counts == 0)

    # --- one sample ------------------------------------------------------------

    def follow(self, x: np.ndarray, label: Any, weight: float) -> Any:
        """Learn a sample or hold it out; return the answer given before that."""
        x = self._taken(x)
        known = len(self.classes)
        column = self.classes.columns.get(label, known)
        held = weight > 0.0 and column < known and self._is_held(column)
        for recursion in self.recursions:
            recursion.x[:] = x
        if held:
            self.recursions[self.chosen].predict()
        else:
            self.make_room(column + 1)
            for recursion in self.recursions:
                recursion.y[:] = 0.0
                recursion.y[column] = 1.0
                recursion.learn(weight)
        answer = self._answer()
        if column == known:
            self.enrol([label])
        self.seen += 1
        if weight > 0.0:
            self._count(column, weight, held)
        return answer

    def _is_held(self, column: int) -> bool:
        hold_out = self.hold_out
        return hold_out is not None and (self.turns[column] + 1) % hold_out == 0

    def _count(self, column: int, weight: float, held: bool) -> None:
        self.turns[column] += 1
        if held:
            phi = self.map.rows(self.recursions[0].x[None], 0)
            self.held.add(phi, np.array([column]))
        else:
            self.counts[column] += weight
            self._factors[column] = self.counts[column] ** -self.recode
        if self.turns[column] == 1:
            self._refresh()
        if self.hold_out is not None and (held or self.turns[column] == 1):
            self.choose_by_held_out()

    def predict(self, x: np.ndarray) -> Any:
        """Return the answer for one sample."""
        recursion = self.recursions[self.chosen]
        recursion.x[:] = self._taken(x)
        recursion.predict()
        return self._answer()

    def _taken(self, x: np.ndarray) -> np.ndarray:
        """Return what the recursions take for one sample, if its shape is right."""
        if x.shape != (self.inputs.n_inputs,):
            raise ValueError(
                f"x must have shape ({self.inputs.n_inputs},), not {x.shape}; the "
                "model is unchanged"
            )
        if self.inputs.transformer is None:
            return x
        return self.inputs.rows_taken(x[None])[0]

    def _answer(self) -> Any:
        """Return the label with the best score of the last prediction, or None."""
        known = len(self.counts)
        if len(self._unseen) == known:
            return None
        scores = self.recursions[self.chosen].mean[:known] * self._factors
        scores[self._unseen] = -np.inf
        return self.classes.labels[scores.argmax()]

    # --- many rows -------------------------------------------------------------

    def learn_rows(
        self,
        X: np.ndarray,
        labels: list[Any],
        weights: np.ndarray,
        first: Iterable[Any] = (),
    ) -> None:
        """Learn rows, the same as one by one; the choice is made once, when it last is.

        Rows of weight 0 make their classes known, and that is all; so do the labels in
        ``first``, before those of the rows.
        """
        X = self.inputs.rows_taken(X)
        self.recursions[0].check_taken(X, np.ones((len(X), 1)), weights)
        self.enrol([*first, *labels])
        self.seen += len(X)
        columns, useful = self.classes.of(labels), weights > 0
        X, columns, weights = X[useful], columns[useful], weights[useful]
        turns = turns_of(columns, self.turns)
        held, cut = np.zeros(len(X), bool), 0
        if self.hold_out is not None:
            held = turns % self.hold_out == 0
            cut = int(np.flatnonzero(held | (turns == 1)).max(initial=-1)) + 1
        rows = X, columns, weights, held
        if cut:  # after this row nothing is chosen any more
            self._take_in(*(each[:cut] for each in rows))
            self.choose_by_held_out()
        self._take_in(*(each[cut:] for each in rows))

    def _take_in(
        self, X: np.ndarray, columns: np.ndarray, weights: np.ndarray, held: np.ndarray
    ) -> None:
        """Learn rows or hold them out, without choosing anything."""
        known = len(self.counts)
        self.turns += np.bincount(columns, minlength=known)
        learned = np.where(held, 0.0, weights)
        self.counts += np.bincount(columns, learned, minlength=known)
        self._refresh()
        for start in range(0, len(X), BLOCK):
            rows = slice(start, start + BLOCK)
            out = held[rows]
            self.held.add(self.map.rows(X[rows][out], 0), columns[rows][out])
            inputs, places = X[rows][~out], columns[rows][~out]
            code = np.zeros((len(places), self.recursions[0].n_outputs))
            code[np.arange(len(places)), places] = 1.0
            for recursion in self.recursions:
                recursion.learn_rows(inputs, code, weights[rows][~out])

    def weights(self) -> np.ndarray:
        """Return the weights in use, recoded, a column for each class."""
        plain = self.recursions[self.chosen].weights()[:, : len(self.counts)]
        return plain * self._recoding()

    def _recoding(self) -> np.ndarray:
        """Return what scores are multiplied by; the sum is in the order of C's."""
        return float(sum(self.counts.tolist())) ** self.recode * self._factors

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Return W' phi + b of rows, recoded; minus infinity for classes unseen."""
        X = self.inputs.rows_taken(X)
        plain = self.recursions[self.chosen].means(X)[:, : len(self.counts)]
        scores = plain * self._recoding()
        scores[:, self._unseen] = -np.inf
        return scores

    # --- the choice ------------------------------------------------------------

    def choose_by_held_out(self) -> None:
        """Choose by the held-out samples, if there are enough of a class."""
        known = len(self.counts)
        shares = np.pad(self.held.offered, (0, known - len(self.held.offered)))
        if shares.max() >= self.enough:
            scores = self.held.scores(self.recursions, known)
            self.choose(scores, self.held.truth, shares)

    def choose_by(self, X: np.ndarray, labels: list[Any]) -> None:
        """Choose a ridge and a recoding by rows of their own."""
        unknown = [label for label in labels if label not in self.classes.columns]
        if unknown:
            raise ValueError(f"y_val holds a label that is not known: {unknown[0]!r}")
        X, columns = self.inputs.rows_taken(X), self.classes.of(labels)
        if np.bincount(columns).max() < self.enough:
            raise ValueError(f"y_val has no class with enough={self.enough} rows")
        scores = [r.means(X)[:, : len(self.counts)] for r in self.recursions]
        shares = np.bincount(columns, minlength=len(self.counts))
        self.choose(np.stack(scores), columns, shares)

    def choose(self, scores: np.ndarray, truth: np.ndarray, shares: np.ndarray) -> None:
        """Choose by scores (L, M, T) of examples, and what each class counts for."""
        totals = np.bincount(truth, minlength=len(self.counts))
        right = _recoding.right_answers(scores, truth, self.counts, self.recodes)
        choice = _recoding.choose(
            right, totals, shares, self.recodes, self.enough, self.allowed_loss
        )
        if choice is not None:
            self.chosen, self.recode, self.accuracy = choice
            self.validated = totals
            self._refresh()

    def validation(self) -> dict[str, np.ndarray] | None:
        """Return what the last choice was made by, or None if there was none."""
        if self.accuracy is None:
            return None
        return {
            "ridge": self.ridges.copy(),
            "recode": self.recodes.copy(),
            "accuracy": self.accuracy.copy(),
            "classes": self.classes.array[: len(self.validated)],
            "n_samples": self.validated.copy(),
        }

    # --- a life after the process ----------------------------------------------

    def settings(self) -> tuple[Any, ...]:
        """Return what parameters decide, to tell whether they were changed."""
        return (
            (self.ridges.tolist(), self.recodes.tolist()),
            (self.hold_out, self.enough, self.allowed_loss),
            (self.map.n_features, self.recursions[0].state.R.dtype),
        )

    def arrays(self) -> dict[str, Any]:
        """Return what it takes to resume bit for bit."""
        return {
            "recursions": [recursion.arrays() for recursion in self.recursions],
            "held": self.held.arrays(),
            "labels": list(self.classes.labels),
            "counts": self.counts.copy(),
            "turns": self.turns.copy(),
            "seen": self.seen,
            "chosen": self.chosen,
            "recode": self.recode,
            "accuracy": None if self.accuracy is None else self.accuracy.copy(),
            "validated": self.validated.copy(),
        }

    def restore(self, kept: dict[str, Any]) -> None:
        """Take up what :meth:`arrays` gave; refuse what does not fit."""
        self.enrol(kept["labels"])
        known, ridges = len(self.classes), len(self.ridges)
        whole = np.dtype(np.int64)
        counts = saved_array(kept, "counts", (known,), np.dtype(float))
        turns = saved_array(kept, "turns", (known,), whole)
        validated = saved_array(kept, "validated", (None,), whole)
        accuracy = kept["accuracy"]
        if accuracy is not None:
            accuracy = saved_array(kept, "accuracy", (ridges, len(self.recodes)))
        if min(counts.min(initial=0), turns.min(initial=0)) < 0 or (
            len(validated) > known or not 0.0 <= kept["recode"] <= 1.0
        ):
            raise ValueError("the state does not fit its number of classes")
        if len(kept["recursions"]) != ridges:
            raise ValueError(f"the state must hold a recursion for each of {ridges}")
        self.chosen = saved_int(kept, "chosen", most=ridges - 1)
        self.seen = saved_int(kept, "seen", most=MOST_SAMPLES)
        self._restore_recursions(kept["recursions"])
        self.held.restore(kept["held"], known)
        self.counts, self.turns, self.validated = counts.copy(), turns.copy(), validated
        self.recode, self.accuracy = float(kept["recode"]), accuracy
        self._refresh()

    def _restore_recursions(self, kept: list[dict[str, Any]]) -> None:
        columns = {int(np.shape(each["rotated"])[-1]) for each in kept}
        reserve = columns.pop() - self.recursions[0].n_outputs
        if columns or reserve < 0:
            raise ValueError("the state's recursions must have a column for each class")
        for recursion, each in zip(self.recursions, kept, strict=True):
            if reserve:
                recursion.add_outputs(reserve)
            recursion.restore(each)


def turns_of(columns: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return which sample of its class each row is, after those before."""
    order = np.argsort(columns, kind="stable")
    ranked = columns[order]
    turns = np.empty(len(columns), np.int64)
    turns[order] = before[ranked] + 1 + np.arange(len(ranked))
    turns[order] -= np.searchsorted(ranked, ranked)
    return turns
