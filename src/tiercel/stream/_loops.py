"""The compiled loops of the recursive learners: one call per sample.

All of them see the same state. R (F, F) is upper triangular and row-major with
R'R = sum of w phi phi' + the regulariser, and Z (F, T) holds the rotated targets,
R'Z = sum of w phi y'. A sample [phi y] is rotated into [R Z] from below (Gill, Golub,
Murray and Saunders, 1974), and what the rotations leave behind already tells what the
model would have predicted (Gijsberts 2011, Alg. 4.2, has the two steps apart): after k
rotations the carried row is the remainder of the triangular solve R'v = phi, divided
by sqrt(1 + v_1^2 + ... + v_k^2). So one sweep over R predicts, measures the leverage
phi'(R'R)^-1 phi and learns.

Sums are written so that the compiler may vectorise them without reordering: the same
bits on every machine. Compiled code raises no message worth reading: a status comes
back, and everything that may fail is looked at before anything is written.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tiercel._compiled import compiled

DONE, NOT_FINITE, REFUSED = 0, 1, 2
LINEAR, COSINE, SINE_COSINE = 0, 1, 2  # which map of the inputs

# pi in three parts: multiples of the first two below 2^20 are exact.
PI_1, PI_2, PI_3 = 3.1415926534682512, 1.2154201012607932e-10, 4.044532497591901e-21
ROUND = 6755399441055744.0  # adding it and taking it away rounds to whole numbers
LARGE = 3.0e6  # angles beyond are left to the C library
HUGE, HUGE_SINGLE = 1e150, 1e30  # squares of anything beyond may overflow
TINY, TINY_SINGLE = 1e-150, 1e-36  # nothing, beside any ridge that is allowed
FORGOTTEN = 1e-30  # what is left of an intercept's row when nothing is


class SampleMap(NamedTuple):
    """What makes the features of a sample, and the room that it takes.

    phi = [1 if intercept, map of x, trend if there is room left]; the frequencies are
    (d, D), angle (D,) and waves (2, D). All but phi is in float64, so that a model in
    float32 does not lose the digits of large angles.
    """

    kind: int
    frequencies: np.ndarray
    phases: np.ndarray
    scale: float
    intercept: bool
    angle: np.ndarray
    waves: np.ndarray
    phi: np.ndarray


class State(NamedTuple):
    """What has been learned, and the room that learning takes.

    means (2, T) holds the last prediction and scratch, rss (T,) the weighted and
    regularised squared errors left over, target (T,) is workspace. The regulariser of
    each feature is ridge; prior is what forgetting has left of it. Where the noise's
    standard deviation is known (above 0), the rows of within (4, T) count the errors of
    at most 1, 2 and 3 predicted standard deviations, and all.
    """

    R: np.ndarray
    Z: np.ndarray
    means: np.ndarray
    rss: np.ndarray
    target: np.ndarray
    ridge: np.ndarray
    prior: np.ndarray
    forgetting: float
    refreshed: int
    noise: float
    within: np.ndarray


@compiled
def wave(angle: np.ndarray, sine: np.ndarray, cosine: np.ndarray, scale: float) -> None:
    """Write ``scale`` times sine and cosine of the angles, each if it has a length.

    Own polynomials, for two reasons: they vectorise, and they give the same bits
    whatever the C library. Absolute error below 4e-16 up to |angle| = 3e6.
    """
    with_sine, with_cosine = sine.shape[0] > 0, cosine.shape[0] > 0
    beyond = 0
    for j in range(angle.shape[0]):
        beyond |= abs(angle[j]) > LARGE
    if beyond:
        for j in range(angle.shape[0]):
            if with_sine:
                sine[j] = scale * math.sin(angle[j])
            if with_cosine:
                cosine[j] = scale * math.cos(angle[j])
        return
    for j in range(angle.shape[0]):
        turns = (angle[j] * 0.3183098861837907 + ROUND) - ROUND
        r = ((angle[j] - turns * PI_1) - turns * PI_2) - turns * PI_3
        pairs = (turns * 0.5 - 0.25 + ROUND) - ROUND
        signed = scale * (1.0 - 2.0 * (turns - 2.0 * pairs))
        q = r * r
        if with_sine:
            p = 1.9572941063391263e-20
            p = p * q - 8.22063524662433e-18
            p = p * q + 2.8114572543455206e-15
            p = p * q - 7.647163731819816e-13
            p = p * q + 1.6059043836821613e-10
            p = p * q - 2.505210838544172e-08
            p = p * q + 2.7557319223985893e-06
            p = p * q - 0.0001984126984126984
            p = p * q + 0.008333333333333333
            p = p * q - 0.16666666666666666
            sine[j] = signed * (r + r * (q * p))
        if with_cosine:
            p = -8.896791392450574e-22
            p = p * q + 4.110317623312165e-19
            p = p * q - 1.5619206968586225e-16
            p = p * q + 4.779477332387385e-14
            p = p * q - 1.1470745597729725e-11
            p = p * q + 2.08767569878681e-09
            p = p * q - 2.755731922398589e-07
            p = p * q + 2.48015873015873e-05
            p = p * q - 0.001388888888888889
            p = p * q + 0.041666666666666664
            cosine[j] = signed * ((1.0 - 0.5 * q) + q * q * p)


@compiled
def map_sample(of: SampleMap, x: np.ndarray, trend: float) -> bool:
    """Write the features of x into ``of.phi``, if all of x is finite."""
    phi, start, finite = of.phi, 0, True
    limit = HUGE if phi.itemsize == 8 else HUGE_SINGLE
    for i in range(x.shape[0]):
        finite &= abs(x[i]) < limit
    if not finite:
        return False
    if of.intercept:
        phi[0] = 1.0
        start = 1
    if of.kind == LINEAR:
        for i in range(x.shape[0]):
            phi[start + i] = x[i]
        start += x.shape[0]
    else:
        count, angle = of.angle.shape[0], of.angle
        for j in range(count):
            angle[j] = of.phases[j]
        for i in range(x.shape[0]):
            row, xi = of.frequencies[i], x[i]
            for j in range(count):
                angle[j] += xi * row[j]
        both = of.kind == SINE_COSINE
        wave(angle, of.waves[1] if both else of.waves[1, :0], of.waves[0], of.scale)
        for j in range(count):
            phi[start + j] = of.waves[0, j]
        start += count
        if both:
            for j in range(count):
                phi[start + j] = of.waves[1, j]
            start += count
    if start < phi.shape[0]:
        phi[start] = trend
    return True


@compiled
def rotate_in(
    R: np.ndarray,
    Z: np.ndarray,
    phi: np.ndarray,
    target: np.ndarray,
    mean: np.ndarray,
    fade: float,
    start: int,
) -> float:
    """Rotate [phi target] into fade * [R Z] from row ``start`` on; overwrite both.

    Returns sqrt(1 + ||v||^2) with fade * R' v = phi, writes Z'v, the prediction before
    the sample, into ``mean``, and leaves the rotated targets in ``target``: the
    prediction's errors divided by what is returned. A row of R that is still zero (an
    intercept before its first sample) knows nothing: infinite, and a mean of zero.
    Two rows per sweep: phi passes through registers half as often.
    """
    size, outputs, dtype = phi.shape[0], target.shape[0], phi.dtype.type
    growth, known = 1.0, True
    for t in range(outputs):
        mean[t] = 0.0
    k = start
    while k < size:
        pair = k + 1 < size
        d0, x0 = fade * np.float64(R[k, k]), np.float64(phi[k])
        r0 = math.sqrt(d0 * d0 + x0 * x0)
        inverse = 1.0 / r0 if r0 > 0.0 else 0.0
        c0, s0 = (d0 * inverse, x0 * inverse) if r0 > 0.0 else (1.0, 0.0)
        v0, v1, r1, c1, s1 = 0.0, 0.0, 0.0, 1.0, 0.0
        if x0 != 0.0 and d0 == 0.0:
            known = False
        elif known and r0 > 0.0:
            v0 = x0 * growth / d0
            growth *= r0 / d0
        if pair:
            above = fade * np.float64(R[k, k + 1])
            d1, x1 = (
                fade * np.float64(R[k + 1, k + 1]),
                c0 * np.float64(phi[k + 1]) - s0 * above,
            )
            R[k, k + 1] = dtype(c0 * above + s0 * np.float64(phi[k + 1]))
            r1 = math.sqrt(d1 * d1 + x1 * x1)
            inverse = 1.0 / r1 if r1 > 0.0 else 0.0
            c1, s1 = (d1 * inverse, x1 * inverse) if r1 > 0.0 else (1.0, 0.0)
            if x1 != 0.0 and d1 == 0.0:
                known = False
            elif known and r1 > 0.0:
                v1 = x1 * growth / d1
                growth *= r1 / d1
            R[k + 1, k + 1] = dtype(r1)
        R[k, k] = dtype(r0)
        a0, b0, f0, g0 = dtype(c0), dtype(s0), dtype(c0 * fade), dtype(s0 * fade)
        a1, b1, f1, g1 = dtype(c1), dtype(s1), dtype(c1 * fade), dtype(s1 * fade)
        for t in range(outputs):
            z, y = Z[k, t], target[t]
            mean[t] += v0 * fade * np.float64(z)
            Z[k, t] = f0 * z + b0 * y
            y = a0 * y - g0 * z
            if pair:
                z = Z[k + 1, t]
                mean[t] += v1 * fade * np.float64(z)
                Z[k + 1, t] = f1 * z + b1 * y
                y = a1 * y - g1 * z
            target[t] = y
        if pair:
            upper, lower, tail = R[k, k + 2 :], R[k + 1, k + 2 :], phi[k + 2 :]
            for j in range(tail.shape[0]):
                u, w, x = upper[j], lower[j], tail[j]
                upper[j] = f0 * u + b0 * x
                x = a0 * x - g0 * u
                lower[j] = f1 * w + b1 * x
                tail[j] = a1 * x - g1 * w
        k += 2
    if not known:
        for t in range(outputs):
            mean[t] = 0.0
        return np.inf
    return growth


@compiled
def predict_features(
    R: np.ndarray, Z: np.ndarray, phi: np.ndarray, mean: np.ndarray
) -> float:
    """Write the prediction for the features phi into mean; return their leverage.

    The triangular solve R'v = phi, which needs no weights: they would have to be made
    anew after every sample. Overwrites phi with v.
    """
    leverage = 0.0
    for t in range(mean.shape[0]):
        mean[t] = 0.0
    for k in range(phi.shape[0]):
        if R[k, k] == 0.0:
            if phi[k] != 0.0:
                for t in range(mean.shape[0]):
                    mean[t] = 0.0
                return np.inf
            continue
        v = phi[k] / R[k, k]
        phi[k] = v
        leverage += np.float64(v) * np.float64(v)
        for t in range(mean.shape[0]):
            mean[t] += np.float64(v) * np.float64(Z[k, t])
        row, tail = R[k, k + 1 :], phi[k + 1 :]
        for j in range(tail.shape[0]):
            tail[j] -= v * row[j]
    return leverage


@compiled
def predict_sample(
    of: SampleMap, state: State, x: np.ndarray, trend: float
) -> tuple[int, float]:
    """Predict one sample; return the status and the leverage of its features."""
    if not map_sample(of, x, trend):
        return NOT_FINITE, 0.0
    return DONE, predict_features(state.R, state.Z, of.phi, state.means[0])


@compiled
def learn_sample(
    of: SampleMap,
    state: State,
    x: np.ndarray,
    y: np.ndarray,
    weight: float,
    trend: float,
    seen: int,
) -> tuple[int, float]:
    """Predict one sample, then learn it; return the status and the leverage before."""
    limit = HUGE if of.phi.itemsize == 8 else HUGE_SINGLE
    if weight > 1.0:
        limit /= math.sqrt(weight)
    for t in range(y.shape[0]):
        if not abs(y[t]) < limit:
            return NOT_FINITE, 0.0
    if of.kind == LINEAR:
        for i in range(x.shape[0]):
            if not abs(x[i]) < limit:
                return NOT_FINITE, 0.0
    if not map_sample(of, x, trend):
        return NOT_FINITE, 0.0
    if weight == 0.0:
        leverage = predict_features(state.R, state.Z, of.phi, state.means[0])
        if state.forgetting < 1.0:
            forget(state, of.phi, seen)
        return DONE, leverage
    leverage = learn_features(state, of.phi, y, weight, seen)
    if state.noise > 0.0:
        size = state.noise * math.sqrt(1.0 / weight + leverage)
        for t in range(y.shape[0]):
            error = abs(y[t] - state.means[0, t])
            for width in range(3):
                state.within[width, t] += error <= (width + 1) * size
            state.within[3, t] += 1.0
    return DONE, leverage


@compiled
def learn_rows(
    of: SampleMap,
    state: State,
    X: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray,
    trend_step: float,
    seen: int,
    predictions: np.ndarray,
    leverages: np.ndarray,
) -> int:
    """Predict and learn row by row; return how many were learned before a bad one."""
    for i in range(X.shape[0]):
        trend = (seen + i) * trend_step
        status, leverage = learn_sample(
            of, state, X[i], Y[i], weights[i], trend, seen + i
        )
        if status != DONE:
            return i
        leverages[i] = leverage
        for t in range(predictions.shape[1]):
            predictions[i, t] = state.means[0, t]
    return X.shape[0]


@compiled
def learn_features(
    state: State, phi: np.ndarray, y: np.ndarray, weight: float, seen: int
) -> float:
    """Rotate a weighted sample in, fade what came before, keep the regulariser up."""
    dtype, target, rss = phi.dtype.type, state.target, state.rss
    root, forgetting = math.sqrt(weight), state.forgetting
    if weight != 1.0:
        for j in range(phi.shape[0]):
            phi[j] *= dtype(root)
    for t in range(y.shape[0]):
        target[t] = dtype(root * y[t])
    mean = state.means[0]
    growth = rotate_in(state.R, state.Z, phi, target, mean, math.sqrt(forgetting), 0)
    for t in range(y.shape[0]):
        mean[t] /= root
        rss[t] = forgetting * rss[t] + np.float64(target[t]) * np.float64(target[t])
    if forgetting < 1.0:
        refresh(state, phi, seen)
    return (growth * growth - 1.0) * forgetting / weight


@compiled
def forget(state: State, phi: np.ndarray, seen: int) -> None:
    """Let time pass without a sample: fade, keep the regulariser up.

    An intercept's row, which no regulariser keeps up, may fade until its digits are
    lost; what it knew is dropped before that.
    """
    R, Z, target = state.R, state.Z, state.target
    for j in range(phi.shape[0]):
        phi[j] = 0.0
    for t in range(target.shape[0]):
        target[t] = 0.0
        state.rss[t] *= state.forgetting
    rotate_in(R, Z, phi, target, state.means[1], math.sqrt(state.forgetting), 0)
    if state.ridge[0] == 0.0 and R[0, 0] < FORGOTTEN:
        for j in range(phi.shape[0]):
            R[0, j] = 0.0
        for t in range(target.shape[0]):
            Z[0, t] = 0.0
    refresh(state, phi, seen)


@compiled
def refresh(state: State, phi: np.ndarray, seen: int) -> None:
    """Bring the regulariser of a few coordinates, in turn, back to its full value.

    A coordinate's missing part is added as a row of zeros but for one entry, with the
    target zero. What has faded into nothing in its row becomes zero: numbers that lose
    digits to their size are slow, and rounding would keep them there for ever.
    """
    size, target, prior = phi.shape[0], state.target, state.prior
    nothing = TINY if phi.itemsize == 8 else TINY_SINGLE
    for j in range(size):
        prior[j] *= state.forgetting
    for turn in range(state.refreshed):
        i = (seen * state.refreshed + turn) % size
        for j in range(i + 1, size):
            if abs(state.R[i, j]) < nothing:
                state.R[i, j] = 0.0
        for t in range(target.shape[0]):
            if abs(state.Z[i, t]) < nothing:
                state.Z[i, t] = 0.0
        missing = state.ridge[i] - prior[i]
        if missing > 0.0:
            for j in range(i, size):
                phi[j] = 0.0
            phi[i] = math.sqrt(missing)
            for t in range(target.shape[0]):
                target[t] = 0.0
            rotate_in(state.R, state.Z, phi, target, state.means[1], 1.0, i)
            for t in range(target.shape[0]):
                state.rss[t] += np.float64(target[t]) * np.float64(target[t])
            prior[i] = state.ridge[i]


@compiled
def remove_features(
    state: State,
    phi: np.ndarray,
    y: np.ndarray,
    weight: float,
    turns: np.ndarray,
    eps: float,
) -> tuple[int, float]:
    """Take a sample out again (LINPACK's downdate; Stewart, 1979).

    R'a = phi is solved in float64 before R is touched; rotations built from a take the
    sample out. ``turns`` (3, F) is workspace: a, cosines and sines.
    """
    R, Z, size, root, left = state.R, state.Z, phi.shape[0], math.sqrt(weight), 1.0
    a, cosines, sines = turns[0], turns[1], turns[2]
    for k in range(size):
        a[k] = root * phi[k]
    for k in range(size):
        if R[k, k] == 0.0:
            if a[k] != 0.0:
                return REFUSED, -np.inf
            continue
        a[k] /= R[k, k]
        left -= a[k] * a[k]
        row, tail, ak = R[k, k + 1 :], a[k + 1 :], a[k]
        for j in range(tail.shape[0]):
            tail[j] -= ak * row[j]
    if not left > eps:
        return REFUSED, left
    length = math.sqrt(left)
    dtype = R.dtype.type
    for j in range(size):
        phi[j] = 0.0
    for k in range(size - 1, -1, -1):
        r = math.sqrt(length * length + a[k] * a[k])
        cosines[k], sines[k] = length / r, a[k] / r
        length = r
        c, s = dtype(cosines[k]), dtype(sines[k])
        row, carried = R[k, k:], phi[k:]
        for j in range(row.shape[0]):
            x, u = carried[j], row[j]
            carried[j] = c * x + s * u
            row[j] = c * u - s * x
    for t in range(y.shape[0]):
        rest = root * y[t]
        for k in range(size):
            z = (np.float64(Z[k, t]) - sines[k] * rest) / cosines[k]
            Z[k, t] = dtype(z)
            rest = cosines[k] * rest - sines[k] * z
        state.rss[t] = max(state.rss[t] - rest * rest, 0.0)
    return DONE, left
