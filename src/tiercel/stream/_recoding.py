"""Recoding by class frequency, and the choice of how much of it.

A least squares classifier approximates the probabilities of the classes, so a class
that is rare is never the most probable. Recoding divides the scores of class t by
(n_t / n)^alpha, with n_t of n samples: alpha = 0 leaves them as they are, alpha = 1
turns posterior probabilities into likelihoods (Camoriano 2017, sections 7.3.4, 7.5.2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiercel._compiled import compiled

SLACK = 1e-12  # accuracies that differ by less are equal: sums of a few fractions


class Choice(NamedTuple):
    """A ridge (its place among the candidates), a recoding, and what they rest on.

    accuracy (L, A) is that of each ridge and recoding, on the classes with enough
    examples.
    """

    ridge: int
    recode: float
    accuracy: np.ndarray


def factors(counts: np.ndarray, recode: float) -> np.ndarray:
    """Return n_t^-recode, and 0 where n_t is: no factor common to all matters."""
    found = np.zeros(len(counts))
    seen = counts > 0
    found[seen] = counts[seen] ** -recode
    return found


def right_answers(
    scores: np.ndarray, truth: np.ndarray, counts: np.ndarray, recodes: np.ndarray
) -> np.ndarray:
    """Return how many examples get the right answer, by ridge, recoding and class.

    Parameters
    ----------
    scores : array of shape (L, M, T)
        Of M examples, before recoding.
    truth : array of shape (M,)
        Their classes.
    counts : array of shape (T,)
        How much was learned of each class; one with 0 is never the answer.
    recodes : array of shape (A,)

    Returns
    -------
    array of shape (L, A, T)
    """
    right = np.zeros((len(scores), len(recodes), len(counts)), np.int64)
    by_recode = np.stack([factors(counts, recode) for recode in recodes])
    scores = np.ascontiguousarray(scores, np.float64)
    count_right(scores, np.ascontiguousarray(truth, np.int64), by_recode, right)
    return right


@compiled
def count_right(
    scores: np.ndarray, truth: np.ndarray, factors: np.ndarray, right: np.ndarray
) -> None:
    """Add up right answers in ``right``; factors (A, T) are what recoding does."""
    for ridge in range(scores.shape[0]):
        for i in range(scores.shape[1]):
            for a in range(factors.shape[0]):
                answer, best = -1, -np.inf
                for t in range(scores.shape[2]):
                    score = scores[ridge, i, t] * factors[a, t]
                    if factors[a, t] > 0.0 and score > best:
                        answer, best = t, score
                right[ridge, a, truth[i]] += answer == truth[i]


def choose(
    right: np.ndarray,
    totals: np.ndarray,
    shares: np.ndarray,
    recodes: np.ndarray,
    enough: int,
    allowed_loss: float = 0.0,
) -> Choice | None:
    """Choose as much recoding as costs the well-known classes nothing.

    Accuracy is that on the classes with ``enough`` examples. Each recoding goes with
    the ridge that serves it best, the first of equals; the largest recoding that is as
    accurate as the first one, but for the allowed loss, is chosen (Camoriano 2017,
    section 7.6.3).

    Parameters
    ----------
    right : array of shape (L, A, T)
        As `right_answers` returns it.
    totals : array of shape (T,)
        Examples of each class.
    shares : array of shape (T,)
        What each class counts for, as if it had so many examples: its accuracy counts
        by how often it occurs, also where no more than a few examples are kept.
    recodes : array of shape (A,)
        In rising order.
    enough : int
    allowed_loss : float
        Accuracy that recoding may cost.

    Returns
    -------
    Choice, or None if no class has enough examples
    """
    known = totals >= enough
    if not known.any():
        return None
    weights = shares[known] / shares[known].sum()
    accuracy = (right[:, :, known] / totals[known] * weights).sum(2)
    best = accuracy.max(0)
    recode = int(np.flatnonzero(best >= best[0] - allowed_loss - SLACK)[-1])
    ridge = int(np.argmax(accuracy[:, recode] >= best[recode] - SLACK))
    return Choice(ridge, float(recodes[recode]), accuracy)
