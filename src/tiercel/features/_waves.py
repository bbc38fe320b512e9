"""Cosines and sines of many angles at once, compiled.

The streaming learners' loops hold the same series: a compiled loop can only call those
of its own module.
"""

from __future__ import annotations

import math

import numpy as np

from tiercel._compiled import compiled

# Angles are reduced to r in [-pi/2, pi/2] by taking away whole half turns, and the
# series of the cosine and the sine end where their terms drown in rounding. pi comes in
# three parts: multiples of the first two below 2**20 are exact.
PI_1, PI_2, PI_3 = 3.1415926534682512, 1.2154201012607932e-10, 4.044532497591901e-21
HALF_TURNS = 1.0 / math.pi
ROUND = 1.5 * 2.0**52  # adding it and taking it away rounds to whole numbers
LARGE = 3.0e6  # angles beyond are left to the C library
COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(11))
SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(11))


@compiled
def write_waves(
    angles: np.ndarray, phases: np.ndarray, amplitude: float, out: np.ndarray
) -> None:
    """Write ``amplitude`` times the cosines of ``angles + phases`` into ``out``.

    Where ``out`` is twice as wide as ``angles``, its right half gets the sines.
    ``angles`` is overwritten. The loops hold no branches, so that they vectorise, and
    give the same bits whatever the C library; absolute error below 5e-16.
    """
    count = phases.shape[0]
    both = out.shape[1] > count
    for i in range(angles.shape[0]):
        angle, cosine = angles[i], out[i, :count]
        beyond = 0
        for j in range(count):
            angle[j] += phases[j]
            beyond |= not abs(angle[j]) < LARGE
        if beyond:
            write_large(angle, amplitude, out[i])
            continue
        write_cosine(angle, amplitude, cosine)
        if both:
            write_sine(angle, amplitude, out[i, count:])


@compiled
def write_cosine(angle: np.ndarray, amplitude: float, out: np.ndarray) -> None:
    """Write the cosines of moderate angles."""
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10 = COSINE
    for j in range(angle.shape[0]):
        turns = (angle[j] * HALF_TURNS + ROUND) - ROUND
        r = ((angle[j] - turns * PI_1) - turns * PI_2) - turns * PI_3
        pairs = (0.5 * turns - 0.25 + ROUND) - ROUND
        z = r * r
        p = ((((c10 * z + c9) * z + c8) * z + c7) * z + c6) * z + c5
        p = ((((p * z + c4) * z + c3) * z + c2) * z + c1) * z + c0
        out[j] = amplitude * (1.0 - 2.0 * (turns - 2.0 * pairs)) * p


@compiled
def write_sine(angle: np.ndarray, amplitude: float, out: np.ndarray) -> None:
    """Write the sines of moderate angles."""
    s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10 = SINE
    for j in range(angle.shape[0]):
        turns = (angle[j] * HALF_TURNS + ROUND) - ROUND
        r = ((angle[j] - turns * PI_1) - turns * PI_2) - turns * PI_3
        pairs = (0.5 * turns - 0.25 + ROUND) - ROUND
        z = r * r
        p = ((((s10 * z + s9) * z + s8) * z + s7) * z + s6) * z + s5
        p = ((((p * z + s4) * z + s3) * z + s2) * z + s1) * z + s0
        out[j] = amplitude * (1.0 - 2.0 * (turns - 2.0 * pairs)) * (r * p)


@compiled
def write_large(angle: np.ndarray, amplitude: float, out: np.ndarray) -> None:
    """Write cosines, and sines where there is room, of angles of any size."""
    count = angle.shape[0]
    for j in range(count):
        out[j] = amplitude * math.cos(angle[j])
    for j in range(out.shape[0] - count):
        out[count + j] = amplitude * math.sin(angle[j])
