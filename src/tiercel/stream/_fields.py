"""The compiled loops of locally weighted projection regression.

The formulas are those of Vijayakumar, D'Souza and Schaal (2005), with the safeguards
of the library LWPR (Klanke, Vijayakumar and Schaal, 2008). Sums are over samples,
weighted with the activation w of the field and forgotten at the pace of their
direction. Directions are those of partial least squares: z is what the directions
before have left of the input less its mean, s = u'z its score, e what they have left
of the output. Nothing is allocated, and exponential and logarithm are written out: the
same bits on every machine.
"""

from __future__ import annotations

import math

import numpy as np

from tiercel._compiled import compiled
from tiercel.stream._fields_memory import DIRECTIONS, TINY, Array, Field, Fields, Rule

# Rows of `numbers`, beside DIRECTIONS: the mean output, the sum of w times the squared
# error of the fit, whether the field has seen enough to predict.
MEAN_Y, FIT_ERROR, TRUSTED = 0, 1, 2
# Rows of `vectors`: the metric is diag(ROOT^2), RATE = exp(LOG_RATE) the step of its
# gradient descent, TRACE the memory of meta learning.
ROOT, CENTER, MEAN, RATE, LOG_RATE, TRACE = range(6)
# Rows of `sums`, over directions: w; w s^2; the count of samples; the factor by which
# all this is forgotten; w s e; that over w s^2; w times the squared leave-one-out
# error; two memories of the metric's gradient.
WEIGHT, ENERGY, SAMPLES, FORGETTING, MOMENT, COEFFICIENT, CV_ERROR = range(7)
INFLUENCE, LEVERAGE = 7, 8
# Rows of `axes`, over directions: u; the loading, CROSS / ENERGY; the sum of w e z,
# which u points along; the sum of w s z.
PROJECTION, LOADING, COVARIANCE, CROSS = range(4)

NEAR = 1e-3  # activations up to this count as none
FAR = 14.0  # squared distances from here on have activations below NEAR
HUGE = 1e70  # fourth powers of anything beyond overflow
NOT_FINITE = -1


@compiled
def learn(
    fields: Fields, rule: Rule, work: Array, X: Array, Y: Array, out: Array, start: int
) -> int:
    """Learn the rows from ``start`` on; return the first one there was no room for.

    ``out``, if it has rows, gets what was predicted before each was learned. If any
    value is not finite, or beyond `HUGE`, no row is learned. ``work`` is (3, d).
    """
    if start == 0 and not (all_tame(X) and all_tame(Y)):
        return NOT_FINITE
    for i in range(start, X.shape[0]):
        if lacks_room(fields, rule):
            return i
        for j in range(X.shape[1]):
            work[0, j] = X[i, j] / rule.input_range[j]
        for output in range(Y.shape[1]):
            if out.shape[0] > 0:
                out[i, output] = blended(fields, output, work)
            learn_one(fields, rule, output, work, Y[i, output])
    return X.shape[0]


@compiled
def predict(fields: Fields, rule: Rule, work: Array, X: Array, out: Array) -> None:
    """Write the predictions of all outputs for the rows of X; ``work`` is (2, d)."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            work[0, j] = X[i, j] / rule.input_range[j]
        for output in range(out.shape[1]):
            out[i, output] = blended(fields, output, work)


@compiled
def all_tame(values: Array) -> bool:
    """Tell whether no value is NaN, infinite, or too large to calculate with."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            if not abs(values[i, j]) < HUGE:
                return False
    return True


@compiled
def lacks_room(fields: Fields, rule: Rule) -> bool:
    """Tell whether a field or a direction that may come would find no place."""
    _, places, _, width, d = fields.axes.shape
    for output in range(fields.used.shape[0]):
        count = fields.used[output]
        if count == places - 1 and count < rule.max_fields:
            return True
        for i in range(count if width < d else 0):
            if fields.numbers[output, i, DIRECTIONS] == width:
                return True
    return False


@compiled
def pick(fields: Fields, output: int, i: int) -> Field:
    """Return one field."""
    return Field(
        fields.numbers[output, i],
        fields.vectors[output, i],
        fields.sums[output, i],
        fields.axes[output, i],
    )


@compiled
def blended(fields: Fields, output: int, work: Array) -> float:
    """Return the mean of what the fields predict, weighted with their activations."""
    x, z, total, weight = work[0], work[1], 0.0, 0.0
    for i in range(fields.used[output]):
        distance = squared_distance(fields.vectors[output, i], x)
        w = exponential(-0.5 * distance) if distance < FAR else 0.0
        field = pick(fields, output, i)
        if w > NEAR and field.numbers[TRUSTED] > 0:
            value = field.numbers[MEAN_Y]
            for j in range(x.shape[0]):
                z[j] = x[j] - field.vectors[MEAN, j]
            for r in range(mature(field)):
                value += field.sums[COEFFICIENT, r] * deflate(field.axes, r, z)
            total += w * value
            weight += w
    return total / weight if weight > 0 else 0.0


@compiled
def squared_distance(vectors: Array, x: Array) -> float:
    """Return (x - c)' diag(ROOT^2) (x - c)."""
    total = 0.0
    for j in range(x.shape[0]):
        step = vectors[ROOT, j] * (x[j] - vectors[CENTER, j])
        total += step * step
    return total


@compiled
def mature(field: Field) -> int:
    """Return how many directions count: the last one only once it is old enough."""
    directions = int(field.numbers[DIRECTIONS])
    old = field.sums[SAMPLES, directions - 1] > 2 * field.vectors.shape[1]
    return directions if old or directions == 1 else directions - 1


@compiled
def deflate(axes: Array, r: int, z: Array) -> float:
    """Return the score of z along direction r, and take that direction out of z."""
    score = 0.0
    for j in range(z.shape[0]):
        score += axes[PROJECTION, r, j] * z[j]
    for j in range(z.shape[0]):
        z[j] -= score * axes[LOADING, r, j]
    return score


@compiled
def learn_one(fields: Fields, rule: Rule, output: int, work: Array, y: float) -> None:
    """Let every field near x learn, then generate or prune one if that is due."""
    nearest, second = np.inf, np.inf
    winner, other = -1, -1
    for i in range(fields.used[output]):
        distance = squared_distance(fields.vectors[output, i], work[0])
        if distance < nearest:
            nearest, second, winner, other = distance, nearest, i, winner
        elif distance < second:
            second, other = distance, i
        if distance < FAR:
            w = exponential(-0.5 * distance)
            if w > NEAR:
                update(pick(fields, output, i), rule, work, w, y)
    largest = exponential(-0.5 * nearest)
    if largest > rule.generate_below:
        if exponential(-0.5 * second) > rule.prune_above:
            prune(fields, output, winner, other)
    elif fields.used[output] < rule.max_fields:
        near = largest > 0.1 * rule.generate_below
        known = near and fields.numbers[output, winner, TRUSTED] > 0
        generate(fields, rule, output, winner if known else -1, work[0], y)


@compiled
def update(field: Field, rule: Rule, work: Array, w: float, y: float) -> None:
    """Show a sample to one field, where it weighs w."""
    sums, z, scores = field.sums, work[1], work[2]
    enough = 2 * z.shape[0]
    field.numbers[TRUSTED] = 1.0 if sums[SAMPLES, 0] > enough else 0.0
    target = update_means(field, work, w, y)
    cv_error = update_regression(field, z, w, target)
    for j in range(z.shape[0]):
        z[j] = work[0, j] - field.vectors[MEAN, j]
    error, used = target, mature(field)
    for r in range(int(field.numbers[DIRECTIONS])):
        scores[r] = deflate(field.axes, r, z)
        if r < used:
            error -= sums[COEFFICIENT, r] * scores[r]
    if ready(sums, 0):
        update_metric(field, rule, work, w, error, cv_error)
    if wants_direction(field, rule):
        sums[SAMPLES, int(field.numbers[DIRECTIONS])] = 0.0
        field.numbers[DIRECTIONS] += 1
    for r in range(int(field.numbers[DIRECTIONS])):
        kept = sums[FORGETTING, r]
        sums[SAMPLES, r] = kept * sums[SAMPLES, r] + 1
        sums[FORGETTING, r] = (
            rule.blend * kept + (1 - rule.blend) * rule.last_forgetting
        )


@compiled
def ready(sums: Array, r: int) -> bool:
    """Tell whether direction r has seen enough to take part in the metric's step."""
    return sums[SAMPLES, r] * (1 - sums[FORGETTING, 0]) > 0.1


@compiled
def update_means(field: Field, work: Array, w: float, y: float) -> float:
    """Move the means; write x less its mean into z, return y less its mean."""
    x, z, mean, numbers = work[0], work[1], field.vectors[MEAN], field.numbers
    past = field.sums[FORGETTING, 0] * field.sums[WEIGHT, 0]
    for j in range(x.shape[0]):
        mean[j] = (past * mean[j] + w * x[j]) / (past + w)
        z[j] = x[j] - mean[j]
    numbers[MEAN_Y] = (past * numbers[MEAN_Y] + w * y) / (past + w)
    return y - numbers[MEAN_Y]


@compiled
def update_regression(field: Field, z: Array, w: float, error: float) -> float:
    """Update all directions; return the error of the coefficients as they were."""
    sums, axes, used, adapting = (
        field.sums,
        field.axes,
        mature(field),
        ready(field.sums, 0),
    )
    cv_error = error
    for r in range(int(field.numbers[DIRECTIONS])):
        kept, score, norm, target = sums[FORGETTING, r], 0.0, 0.0, error
        for j in range(z.shape[0]):
            score += axes[PROJECTION, r, j] * z[j]
        error -= sums[COEFFICIENT, r] * score
        if r == used - 1:
            cv_error = error
        if adapting:
            sums[CV_ERROR, r] = kept * sums[CV_ERROR, r] + w * error * error
        sums[WEIGHT, r] = kept * sums[WEIGHT, r] + w
        sums[ENERGY, r] = kept * sums[ENERGY, r] + w * score * score
        sums[MOMENT, r] = kept * sums[MOMENT, r] + w * score * target
        # Inputs that never move let the energy fade until nothing is left of it.
        share = 1 / sums[ENERGY, r] if sums[ENERGY, r] > 1e-300 else 0.0
        sums[COEFFICIENT, r] = sums[MOMENT, r] * share
        for j in range(z.shape[0]):
            along = (0.9 + 0.1 * kept) * axes[COVARIANCE, r, j] + w * target * z[j]
            axes[COVARIANCE, r, j] = along
            norm += along * along
            axes[CROSS, r, j] = kept * axes[CROSS, r, j] + w * score * z[j]
            z[j] -= score * axes[LOADING, r, j]
            axes[LOADING, r, j] = axes[CROSS, r, j] * share
        norm = math.sqrt(norm)
        for j in range(z.shape[0] if norm > 1e-12 else 0):
            axes[PROJECTION, r, j] = axes[COVARIANCE, r, j] / norm
    return cv_error


@compiled
def update_metric(
    field: Field, rule: Rule, work: Array, w: float, e: float, cv_error: float
) -> None:
    """Take a step down the gradient of the stochastic leave-one-out error.

    ``slope`` and ``bend`` are its first two derivatives with respect to w. A wild step
    is not taken; the rate is halved instead.
    """
    numbers, vectors, sums = field.numbers, field.vectors, field.sums
    directions, d = int(numbers[DIRECTIONS]), vectors.shape[1]
    weight, cv_sum = sums[WEIGHT, 0], sums[CV_ERROR, mature(field) - 1]
    numbers[FIT_ERROR] *= sums[FORGETTING, directions - 1]
    numbers[FIT_ERROR] += w * e * e
    trust = min(1.0, (numbers[FIT_ERROR] / (cv_sum + TINY)) ** 4)
    leverage, first, second = 0.0, 0.0, 0.0
    for r in range(directions):
        if ready(sums, r):
            t = work[2, r] / sums[ENERGY, r]
            leverage += w * work[2, r] * t
            first += e * t * sums[INFLUENCE, r]
            second += t * t * sums[LEVERAGE, r]
    slope = (cv_error * cv_error - cv_sum / weight - 2 * (first + second)) / weight
    bend = 2 * (e * e * leverage / w - cv_error * cv_error / weight)
    bend += cv_sum / (weight * weight) + 4 * first * (1 / weight + leverage / w)
    bend /= weight
    penalty, wild = 4 * rule.metric_penalty / d * w / weight, 0.0
    for j in range(d):
        wild = max(wild, 0.1 * abs(vectors[ROOT, j]))
    for j in range(d):
        root, square = vectors[ROOT, j], (work[0, j] - vectors[CENTER, j]) ** 2
        reach = root * root * square
        gradient = penalty * root**3 - w * root * square * slope
        if rule.meta_rate >= 0:
            curvature = 3 * penalty * root * root + w * square * (reach - 1) * slope
            curvature += w * w * reach * square * bend
            adapt_rate(rule, vectors, j, trust * gradient, trust * curvature)
        change = vectors[RATE, j] * trust * gradient
        if -np.inf < change <= wild:
            vectors[ROOT, j] = root - change
        else:
            vectors[RATE, j] *= 0.5
    for r in range(directions):
        if ready(sums, r):
            pull, share = w * work[2, r] * cv_error, trust / (1 - leverage)
            kept = sums[FORGETTING, r]
            sums[INFLUENCE, r] = kept * sums[INFLUENCE, r] + pull * share
            sums[LEVERAGE, r] = kept * sums[LEVERAGE, r] + pull * pull * share


@compiled
def adapt_rate(
    rule: Rule, vectors: Array, j: int, gradient: float, curvature: float
) -> None:
    """Let the rate of one root grow while its gradients agree (Sutton, 1992)."""
    step = min(0.1, max(-0.1, rule.meta_rate * gradient * vectors[TRACE, j]))
    vectors[LOG_RATE, j] = min(10.0, max(-10.0, vectors[LOG_RATE, j] - step))
    rate = exponential(vectors[LOG_RATE, j])
    vectors[RATE, j] = rate
    kept = max(0.0, 1 - rate * curvature)
    vectors[TRACE, j] = kept * vectors[TRACE, j] - rate * gradient


@compiled
def wants_direction(field: Field, rule: Rule) -> bool:
    """Tell whether the last direction is settled and was worth having."""
    sums, last = field.sums, int(field.numbers[DIRECTIONS]) - 1
    if last + 1 == field.vectors.shape[1]:
        return False
    mse = sums[CV_ERROR, last] / sums[WEIGHT, last] + TINY
    without = sums[CV_ERROR, last - 1] / sums[WEIGHT, last - 1] + TINY
    settled = sums[SAMPLES, last] * (1 - sums[FORGETTING, last]) > 0.5
    as_old = sums[SAMPLES, last] > 0.99 * sums[SAMPLES, 0]
    return settled and as_old and mse < rule.add_threshold * without


@compiled
def generate(
    fields: Fields, rule: Rule, output: int, like: int, x: Array, y: float
) -> None:
    """Place a field at x, as wide as field ``like``, or else as wide as at first."""
    i = fields.used[output]
    fields.used[output] = i + 1
    copy_field(fields, output, i, -1)  # the blank one
    new, old = pick(fields, output, i), pick(fields, output, like)
    new.numbers[MEAN_Y] = y
    new.numbers[DIRECTIONS] = old.numbers[DIRECTIONS]
    for j in range(x.shape[0]):
        new.vectors[CENTER, j] = x[j]
        new.vectors[ROOT, j] = old.vectors[ROOT, j]
        new.vectors[RATE, j] = old.vectors[RATE, j] if like >= 0 else rule.init_rate
        new.vectors[LOG_RATE, j] = logarithm(new.vectors[RATE, j] + TINY)


@compiled
def prune(fields: Fields, output: int, one: int, other: int) -> None:
    """Drop the narrower of two fields; the last one takes its place."""
    excess = 0.0
    for j in range(fields.vectors.shape[3]):
        excess += fields.vectors[output, one, ROOT, j] ** 2
        excess -= fields.vectors[output, other, ROOT, j] ** 2
    fields.used[output] -= 1
    copy_field(fields, output, one if excess > 0 else other, fields.used[output])


@compiled
def copy_field(fields: Fields, output: int, target: int, source: int) -> None:
    """Let one field be what another is; -1 is the blank one."""
    new, old = pick(fields, output, target), pick(fields, output, source)
    new.numbers[:] = old.numbers
    new.vectors[:] = old.vectors
    new.sums[:] = old.sums
    new.axes[:] = old.axes


@compiled
def exponential(x: float) -> float:
    """Return e^x, with a relative error below 1e-15."""
    if not x > -700.0:
        return 0.0
    twos = math.floor(x * 1.4426950408889634 + 0.5)
    r = x - twos * 0.6931471803691238 - twos * 1.9082149292705877e-10
    power = 1.6059043836821613e-10
    power = power * r + 2.08767569878681e-09
    power = power * r + 2.505210838544172e-08
    power = power * r + 2.755731922398589e-07
    power = power * r + 2.7557319223985893e-06
    power = power * r + 2.48015873015873e-05
    power = power * r + 0.0001984126984126984
    power = power * r + 0.001388888888888889
    power = power * r + 0.008333333333333333
    power = power * r + 0.041666666666666664
    power = power * r + 0.16666666666666666
    power = power * r + 0.5
    return math.ldexp(power * r * r + r + 1.0, int(twos))


@compiled
def logarithm(x: float) -> float:
    """Return ln x of a positive number, to 15 digits."""
    m, twos = math.frexp(x)
    if m < 0.7071067811865476:
        m, twos = 2 * m, twos - 1
    t, series = (m - 1) / (m + 1), 0.0
    for k in range(23, 0, -2):
        series = series * t * t + 1.0 / k
    return 2 * t * series + twos * 0.6931471805599453
