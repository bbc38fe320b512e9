"""Random Fourier features as a scikit-learn transformer."""

from __future__ import annotations

from functools import cached_property, partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from tiercel._arrays import check_points, is_torch, match, to_numpy
from tiercel._state import saved_array, saved_int
from tiercel.features import structured
from tiercel.features._rows import HELD, blocks, dense_angles, map_rows, map_tensor
from tiercel.features.frequencies import draw_norms, draw_orthogonal, isotropic_scale
from tiercel.kernels import Gaussian, Kernel
from tiercel.kernels.base import NotOffered

MAPS = ("sincos", "phase")
SAMPLINGS = ("independent", "orthogonal", "structured")
#: Up to so many inputs the structured matrix itself is stored: it is small.
STORED = 64


class KernelError(NamedTuple):
    """Deviation of phi(x)'phi(z) from k(x, z) over pairs of points."""

    largest: float
    root_mean_square: float


class FourierFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A finite map whose inner products are a kernel's values, on average.

    Frequencies w_1 .. w_D are drawn from the spectrum of a shift-invariant kernel
    (Rahimi and Recht 2008), and phi(x)'phi(z) has mean k(x, z) with a deviation of the
    order 1 / sqrt(D):

    - ``map="sincos"``: sqrt(k(0) / D) [cos(w_1'x) .. cos(w_D'x), sin(w_1'x) ..
      sin(w_D'x)], 2 D features, and phi(x)'phi(x) is k(x, x) exactly;
    - ``map="phase"``: sqrt(2 k(0) / D) cos(w_j'x + b_j), b_j uniform on (-pi, pi),
      D features.

    ``fit`` looks at the number of columns only; everything else comes from
    ``random_state``, so that one seed is one map, whatever the data and their dtype.

    Parameters
    ----------
    kernel : Kernel, default=None
        Gaussian, Laplacian, Matern, RationalQuadratic, Cauchy, their sums, products and
        positive multiples, or any other kernel with frequencies to draw. None stands
        for ``Gaussian()``.
    n_frequencies : int, default=100
        The number D of frequencies.
    map : {"sincos", "phase"}, default="sincos"
        Which features are made of a frequency.
    sampling : {"independent", "orthogonal", "structured"}, default="independent"
        How frequencies are drawn; each one has the same law in all three ways.
        "orthogonal": orthogonal directions in blocks of d frequencies (Yu et al. 2016),
        which lowers the error. "structured": much the same, for many inputs, by fast
        Hadamard transforms: D log d numbers of state, and operations for each row, in
        place of D d. Both need a spectrum that is isotropic once columns are scaled: a
        kernel of the distance, or sums and products of such kernels whose length
        scales are proportional.
    random_state : int, numpy Generator or None, default=None
        An integer gives the same map at every fit.

    Attributes
    ----------
    frequencies_ : ndarray (D, d)
        One frequency per row, float64. Structured frequencies of more than 64 inputs
        are computed when this is first read, and kept.
    phases_ : ndarray (D,)
        What is added to the angles w_j'x in either map: 0 for ``map="sincos"``.
    amplitude_ : float
        The factor in front.
    kernel_ : Kernel
        The kernel that the map stands for, a copy.
    structure_ : tuple of ndarray or None
        What structured frequencies of more than 64 inputs are made of.
    n_features_in_ : int
        Number d of inputs.
    feature_names_in_ : ndarray of str
        Names of the columns, where X had names.

    Examples
    --------
    >>> import numpy as np
    >>> from tiercel.kernels import Matern
    >>> X = np.array([[0.0, 0.0], [1.0, 0.5]])
    >>> features = FourierFeatures(Matern(2.5), n_frequencies=2000, random_state=0)
    >>> Phi = features.fit_transform(X)
    >>> Phi.shape
    (2, 4000)
    >>> print((Phi @ Phi.T).round(2))
    [[1.  0.4]
     [0.4 1. ]]
    >>> Matern(2.5)(X).round(2)
    array([[1.  , 0.46],
           [0.46, 1.  ]])
    """

    structure_: Any  # None, or what structured frequencies are made of

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_frequencies: int = 100,
        map: str = "sincos",
        sampling: str = "independent",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_frequencies = n_frequencies
        self.map = map
        self.sampling = sampling
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> FourierFeatures:
        """Draw the map for points with the columns of ``X``.

        Parameters
        ----------
        X : array, tensor, DataFrame or sparse matrix (n, d)
            Only its number of columns, and their names, matter.
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        self._read(X, reset=True)
        kernel = Gaussian() if self.kernel is None else clone(self.kernel)
        kernel.check(self.n_features_in_)
        rng = np.random.default_rng(self.random_state)
        try:
            mass = kernel.spectral_mass()
            frequencies, structure = self._draw(kernel, rng)
        except NotOffered as error:
            raise TypeError(
                f"{error}; Fourier features need a shift-invariant kernel whose "
                "frequencies can be drawn, such as Gaussian, Laplacian or Matern"
            ) from error
        self.kernel_, self.structure_ = kernel, structure
        self.__dict__.pop("frequencies_", None)
        if frequencies is not None:
            self.frequencies_ = frequencies
        self.phases_ = np.zeros(self.n_frequencies)
        if self.map == "phase":
            self.phases_ = rng.uniform(-np.pi, np.pi, self.n_frequencies)
            mass *= 2.0
        self.amplitude_ = float(np.sqrt(mass / self.n_frequencies))
        return self

    def transform(self, X: Any) -> Any:
        """Return the features of every row.

        Parameters
        ----------
        X : array, tensor, DataFrame or sparse matrix (n, d)

        Returns
        -------
        array or tensor (n, 2 D) or (n, D)
            In the dtype of ``X``, float32 or float64, and on its device; dense.
        """
        check_is_fitted(self)
        return self._map(self._read(X, reset=False))

    def kernel_error(self, X: Any) -> KernelError:
        """Compare phi(x)'phi(z) with k(x, z) over all pairs of rows, in float64.

        Parameters
        ----------
        X : array, tensor, DataFrame or sparse matrix (n, d)
            Points of the kind that the map is for; a few hundred will do, as all their
            features are held at once.

        Returns
        -------
        KernelError
            ``largest`` absolute and ``root_mean_square`` deviation.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-1.0, 1.0, (200, 2))
        >>> for n_frequencies in (100, 10_000):
        ...     features = FourierFeatures(None, n_frequencies, random_state=0)
        ...     print(round(features.fit(X).kernel_error(X).largest, 2))
        0.1
        0.01
        """
        check_is_fitted(self)
        X = self._read(X, reset=False)
        X = X.double() if is_torch(X) else X.astype(np.float64, copy=False)
        phi = self._map(X)
        largest, squares, n_rows = 0.0, 0.0, X.shape[0]
        for rows in blocks(n_rows, n_rows, HELD):
            deviation = phi[rows] @ phi.T - self.kernel_(X[rows], X)
            largest = max(largest, float(abs(deviation).max()))
            squares += float((deviation * deviation).sum())
        return KernelError(largest, float(np.sqrt(squares)) / n_rows)

    @cached_property
    def frequencies_(self) -> np.ndarray:
        """One frequency per row, in float64."""
        return structured.structured_matrix(self.structure_)

    @property
    def _n_features_out(self) -> int:
        return len(self.phases_) * (2 if self.map == "sincos" else 1)

    # --- fit -----------------------------------------------------------------

    def _check_parameters(self) -> None:
        if self.kernel is not None and not isinstance(self.kernel, Kernel):
            raise TypeError(
                "kernel must be a kernel of tiercel.kernels, such as Gaussian(), or "
                f"None, not {self.kernel!r}"
            )
        count = self.n_frequencies
        if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
            raise ValueError(f"n_frequencies must be a positive integer, not {count!r}")
        for name, known in (("map", MAPS), ("sampling", SAMPLINGS)):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} must be one of {', '.join(map(repr, known))}, not "
                    f"{getattr(self, name)!r}"
                )

    def _draw(self, kernel: Kernel, rng: np.random.Generator) -> tuple[Any, Any]:
        """Return the frequencies, or what they are made of."""
        shape = self.n_frequencies, self.n_features_in_
        if self.sampling == "independent":
            return kernel.sample_frequencies(*shape, rng), None
        if self.sampling == "orthogonal":
            return draw_orthogonal(kernel, shape, rng), None
        scale = isotropic_scale(kernel, shape[1])
        norms = draw_norms(kernel, shape, scale, rng)
        drawn = structured.draw_structure(norms, scale, rng)
        if shape[1] > STORED:
            return None, drawn
        return structured.structured_matrix(drawn), None

    # --- persistence -----------------------------------------------------------

    def _saved_state(self) -> dict[str, Any]:
        state = {k: v for k, v in vars(self).items() if k not in self.get_params()}
        if state.get("structure_") is not None:
            state.pop("frequencies_", None)  # computed from it
        return state

    def _restore_state(self, state: dict[str, Any]) -> None:
        inputs = saved_int(state, "n_features_in_", 1)
        count = len(saved_array(state, "phases_", (None,), np.float64))
        structure = state.get("structure_")
        if structure is None:
            saved_array(state, "frequencies_", (count, inputs), np.float64)
        else:
            structured.check_structure(structure, count, inputs)
        if not isinstance(state.get("kernel_"), Kernel):
            raise ValueError("the saved state holds no kernel")
        if not isinstance(state.get("amplitude_"), float):
            raise ValueError("the saved state holds no amplitude")
        self.__dict__.update(state)

    # --- transform -----------------------------------------------------------

    def _read(self, X: Any, reset: bool) -> Any:
        """Return checked points; scikit-learn's checks know no tensors."""
        if not is_torch(X):
            dtypes = (np.float64, np.float32)
            return validate_data(
                self, X, reset=reset, accept_sparse="csr", dtype=dtypes
            )
        X = check_points(X)
        if reset:
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return X

    def _map(self, X: Any) -> Any:
        """Return the features of checked points."""
        phases, amplitude, width = self.phases_, self.amplitude_, self._n_features_out
        if is_torch(X) and X.device.type != "cpu":
            both = width > len(phases)
            return map_tensor(X, self.frequencies_, phases, amplitude, both)
        rows = to_numpy(X) if is_torch(X) else X
        phi = map_rows(rows, self._angles(rows), phases, amplitude, width)
        return match(phi, X)

    def _angles(self, X: Any) -> Any:
        """Return the function from rows like those of ``X`` to their angles."""
        if self.structure_ is None:
            return dense_angles(self.frequencies_, X)
        angles = partial(structured.structured_angles, self.structure_)
        return (lambda rows: angles(rows.toarray())) if sparse.issparse(X) else angles

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
