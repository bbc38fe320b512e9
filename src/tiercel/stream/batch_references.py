"""What an imbalanced stream should come to: rebalanced and recoded batch solutions.

Least squares classification over features Phi with one-hot targets Y, and two remedies
for rare classes, with n_t of n samples in class t (Camoriano 2017, section 7.3):

- `rebalanced` weighs each sample by n / n_t. All weights change whenever a sample
  comes, so there is no recursion; :class:`ClassMoments` is the next best thing.
- `recoded` gives class t the targets (n / n_t)^recode in place of 1, which only scales
  a column of the weights. `IncrementalClassifier` follows it along a stream.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from tiercel.linalg import cholesky
from tiercel.stream._labels import Classes, as_labels, in_order
from tiercel.stream._one_by_one import check_positive


def rebalanced(Phi: Any, labels: Any, ridge: float) -> np.ndarray:
    """Return the weights of least squares in which all classes weigh the same.

    W = (Phi' S Phi + ridge I)^-1 Phi' S Y, where S_ii = n / n_t for the class t of
    sample i.

    Parameters
    ----------
    Phi : array of shape (n, F)
        Features; a column of ones stands for an intercept, and is penalised.
    labels : array of shape (n,)
    ridge : float

    Returns
    -------
    array of shape (F, T)
        A column for each class, in sorted order.

    Examples
    --------
    >>> Phi = np.array([[1.0], [1.0], [1.0], [1.0]])
    >>> rebalanced(Phi, ["common", "common", "common", "rare"], 1e-9).round(3)
    array([[0.5, 0.5]])
    """
    Phi, columns, counts = _samples(Phi, labels)
    weights = (len(Phi) / counts)[columns]
    return _solved(
        Phi.T @ (weights[:, None] * Phi), _sums(Phi, columns, weights), ridge
    )


def recoded(Phi: Any, labels: Any, ridge: float, recode: float = 1.0) -> np.ndarray:
    """Return the weights of least squares whose targets are larger for rare classes.

    W = (Phi' Phi + ridge I)^-1 Phi' Y G^recode, where G is diagonal and G_tt = n / n_t.

    Parameters
    ----------
    Phi : array of shape (n, F)
        Features; a column of ones stands for an intercept, and is penalised.
    labels : array of shape (n,)
    ridge : float
    recode : float
        0 is plain least squares, 1 full recoding.

    Returns
    -------
    array of shape (F, T)
        A column for each class, in sorted order.

    Examples
    --------
    >>> Phi = np.array([[1.0], [1.0], [1.0], [1.0]])
    >>> recoded(Phi, ["common", "common", "common", "rare"], 1e-9).round(3)
    array([[1., 1.]])
    """
    Phi, columns, counts = _samples(Phi, labels)
    targets = (len(Phi) / counts)[columns] ** recode
    return _solved(Phi.T @ Phi, _sums(Phi, columns, targets), ridge)


class ClassMoments:
    """Moments of the features by class, from which both solutions follow.

    A sample costs O(F^2), as in a recursion, but a solution O(T F^2 + F^3), however
    many samples there were. Memory is O(T F^2).

    Attributes
    ----------
    classes_ : array of shape (T,)
        In order of appearance; the columns of the weights follow it.
    counts_ : array of shape (T,)
    grams_ : array of shape (T, F, F)
        Sum of phi phi' over the samples of each class.
    sums_ : array of shape (T, F)
        Sum of phi.

    Examples
    --------
    >>> moments = ClassMoments().add([[1.0], [1.0], [1.0]], ["common"] * 3)
    >>> moments.add([[1.0]], ["rare"]).rebalanced(1e-9).round(3)
    array([[0.5, 0.5]])
    """

    def __init__(self) -> None:
        self._classes = Classes()
        self.counts_ = np.zeros(0)
        self.grams_ = np.zeros((0, 0, 0))
        self.sums_ = np.zeros((0, 0))

    @property
    def classes_(self) -> np.ndarray:
        """The labels of the classes met so far."""
        return self._classes.array

    def add(self, Phi: Any, labels: Any) -> Self:
        """Add samples.

        Parameters
        ----------
        Phi : array of shape (n, F)
        labels : array of shape (n,)

        Returns
        -------
        self
        """
        Phi, labels = _rows(Phi), as_labels(labels)
        size = Phi.shape[1]
        if len(labels) != len(Phi) or (len(self.sums_) and size != len(self.sums_.T)):
            raise ValueError(
                f"Phi is {Phi.shape} with {len(labels)} labels; it must have a label "
                f"per row and always as many columns"
            )
        self._classes.extend(labels)
        missing = len(self._classes) - len(self.counts_)
        grams = self.grams_.reshape(-1, size, size)
        self.counts_ = np.append(self.counts_, np.zeros(missing))
        self.grams_ = np.concatenate([grams, np.zeros((missing, size, size))])
        self.sums_ = np.append(
            self.sums_.reshape(-1, size), np.zeros((missing, size)), 0
        )
        columns = self._classes.of(labels)
        for column in np.unique(columns):
            rows = Phi[columns == column]
            self.counts_[column] += len(rows)
            self.grams_[column] += rows.T @ rows
            self.sums_[column] += rows.sum(0)
        return self

    def rebalanced(self, ridge: float) -> np.ndarray:
        """Return the weights (F, T) in which all classes weigh the same."""
        weights = self._rarities()
        gram = np.tensordot(weights, self.grams_, 1)
        return _solved(gram, self.sums_.T * weights, ridge)

    def recoded(self, ridge: float, recode: float = 1.0) -> np.ndarray:
        """Return the weights (F, T) with targets (n / n_t)^recode."""
        targets = self._rarities() ** recode
        return _solved(self.grams_.sum(0), self.sums_.T * targets, ridge)

    def _rarities(self) -> np.ndarray:
        """Return n / n_t for each class."""
        if not len(self.counts_):
            raise ValueError("there are no samples yet: call add(Phi, labels) first")
        return self.counts_.sum() / self.counts_


def _rows(Phi: Any) -> np.ndarray:
    Phi = np.asarray(Phi, np.float64)
    if Phi.ndim != 2 or 0 in Phi.shape or not np.isfinite(Phi).all():
        raise ValueError(
            f"Phi must be a finite array of shape (n, F), but has shape {Phi.shape} or "
            "holds NaN"
        )
    return Phi


def _samples(Phi: Any, labels: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, the column of each sample's class, and the classes' sizes."""
    Phi, labels = _rows(Phi), as_labels(labels)
    if len(labels) != len(Phi):
        raise ValueError(f"there are {len(Phi)} rows in Phi and {len(labels)} labels")
    columns = Classes(in_order(labels)).of(labels)
    return Phi, columns, np.bincount(columns)


def _sums(Phi: np.ndarray, columns: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return Phi' Y, where Y holds a sample's target in the column of its class."""
    Y = np.zeros((len(Phi), columns.max() + 1))
    Y[np.arange(len(Phi)), columns] = targets
    return Phi.T @ Y


def _solved(gram: np.ndarray, right: np.ndarray, ridge: float) -> np.ndarray:
    check_positive(ridge, "ridge")
    return cholesky(gram + ridge * np.eye(len(gram))).solve(right)
