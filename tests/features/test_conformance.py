"""What scikit-learn asks of a transformer."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from tiercel.features import FourierFeatures, fourier
from tiercel.kernels import Laplacian


@parametrize_with_checks(
    [
        FourierFeatures(n_frequencies=10),
        FourierFeatures(n_frequencies=10, map="phase"),
        FourierFeatures(Laplacian(2.0), n_frequencies=10, sampling="orthogonal"),
        FourierFeatures(n_frequencies=10, map="phase", sampling="structured"),
    ]
)
def test_stored_maps(estimator, check):
    check(estimator)


@parametrize_with_checks([FourierFeatures(n_frequencies=10, sampling="structured")])
def test_maps_by_butterflies(estimator, check, monkeypatch):
    monkeypatch.setattr(fourier, "STORED", 0)
    check(estimator)
