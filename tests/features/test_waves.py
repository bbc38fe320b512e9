"""The compiled cosines and sines against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from tiercel.features._waves import write_waves


def waves(angles, phases, amplitude, dtype, both):
    out = np.full((len(angles), (1 + both) * angles.shape[1]), np.nan, dtype)
    write_waves(angles.copy(), phases, amplitude, out)
    return out


@pytest.mark.parametrize(("dtype", "grade"), [(np.float64, 5e-16), (np.float32, 6e-8)])
@pytest.mark.parametrize("size", [0.0, 1e-3, 2.0, 50.0, 1e4, 2.9e6, 1e8, 1e18])
def test_waves_are_cosines_and_sines(size, dtype, grade):
    rng = np.random.default_rng(0)
    angles, phases = rng.uniform(-size, size, (7, 501)), rng.uniform(-3, 3, 501)
    moved = angles + phases
    expected = 0.3 * np.hstack([np.cos(moved), np.sin(moved)])
    got = waves(angles, phases, 0.3, dtype, both=True)
    assert np.abs(got - expected).max() <= grade
    np.testing.assert_array_equal(
        got[:, :501], waves(angles, phases, 0.3, dtype, False)
    )


def test_waves_at_the_edges_of_the_reduction():
    quarters = np.pi / 2 * np.arange(-4000, 4001)
    angles = np.concatenate([np.nextafter(quarters, s * np.inf) for s in (-1, 1)])
    angles = np.concatenate([angles, quarters])[None, :]
    got = waves(angles, np.zeros(angles.size), 1.0, np.float64, both=True)[0]
    expected = np.hstack([np.cos(angles), np.sin(angles)])[0]
    np.testing.assert_allclose(got, expected, rtol=0, atol=5e-16)


def test_squares_add_up_to_one():
    angles = np.random.default_rng(0).uniform(-1e6, 1e6, (1, 20_000))
    got = waves(angles, np.zeros(20_000), 1.0, np.float64, both=True)
    squares = got[:, :20_000] ** 2 + got[:, 20_000:] ** 2
    np.testing.assert_allclose(squares, 1.0, rtol=1e-15)
