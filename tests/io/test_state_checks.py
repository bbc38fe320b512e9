"""The checks that ``_restore_state`` makes let good states pass, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from tiercel._state import check_entries, saved_array, saved_int


def test_good_entries_pass():
    state = {"R": np.asfortranarray(np.eye(3, 2)), "n": np.int64(4), "i": np.array(1.5)}
    check_entries(state, "n", "R", "i")
    R = saved_array(state, "R", (3, None))
    assert R.flags.c_contiguous
    np.testing.assert_array_equal(R, np.eye(3, 2))
    assert saved_array(state, "i", ()).shape == ()
    assert saved_int(state, "n", 4, 4) == 4
    counts = {"c": np.arange(3)}
    assert saved_array(counts, "c", (3,), np.int64) is counts["c"]
    nan = {"w": np.array([np.nan], dtype=np.float32)}
    assert np.isnan(saved_array(nan, "w", (1,), finite=False)[0])


def test_what_is_returned_may_be_written_to():
    fixed = np.eye(2)
    fixed.flags.writeable = False
    saved_array({"R": fixed}, "R", (2, 2))[0, 0] = 3
    assert fixed[0, 0] == 1


@pytest.mark.parametrize(
    ("value", "shape", "message"),
    [
        (None, (2,), "a in the saved state must be an array of float32 or float64"),
        ([1.0, 2.0], (2,), "must be an array"),
        (np.arange(2), (2,), "must be an array of float32 or float64"),
        (np.arange(2, dtype=">f8"), (2,), "must be an array of float32 or float64"),
        (np.ones(2, dtype=object), (2,), "must be an array of float32 or float64"),
        (np.ones(2), (3,), r"has shape \(2,\), not \(3,\)"),
        (np.ones(2), (2, 1), r"has shape \(2,\), not \(2, 1\)"),
        (np.ones((2, 1)), (None, 2), r"has shape \(2, 1\), not \(any, 2\)"),
        (np.array([1.0, np.inf]), (2,), "holds NaN or infinite values"),
    ],
)
def test_wrong_arrays_are_refused(value, shape, message):
    with pytest.raises(ValueError, match=message):
        saved_array({"a": value}, "a", shape)


@pytest.mark.parametrize("value", [None, True, 1.0, "1", -1, 4])
def test_wrong_numbers_are_refused(value):
    with pytest.raises(ValueError, match="n in the saved state must be a whole number"):
        saved_int({"n": value}, "n", 0, 3)
    with pytest.raises(ValueError, match="whole number of at least 5, not"):
        saved_int({"n": value}, "n", 5)


def test_names_must_be_exactly_those():
    with pytest.raises(ValueError, match="the saved state misses a, b"):
        check_entries({}, "b", "a")
    with pytest.raises(ValueError, match="the saved state holds unknown c"):
        check_entries({"a": 1, "c": 2}, "a")
