"""How far points may lie from one another: beyond, their distances say nothing."""

from __future__ import annotations

#: Largest squared norm, in units of the length scale: its square is still a float64,
#: and itself, with room for sums, a float32.
MOST = 1e30


def check_reach(largest: float) -> None:
    """Refuse points whose largest scaled squared norm is beyond all reason.

    Examples
    --------
    >>> check_reach(1e40)
    Traceback (most recent call last):
    ...
    ValueError: points lie more than 1e+15 length scales away; rescale ...
    """
    # NaN, which infinite distances leave, is not within the limit either.
    if not largest <= MOST:
        raise ValueError(
            f"points lie more than {MOST**0.5:.0e} length scales away; rescale their "
            "columns, or enlarge length_scale"
        )
