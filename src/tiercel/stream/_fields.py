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
from tiercel.stream._fields_memory import DIRECTIONS, TINY, Array, Fields, Rule

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
# which u points along; the sum of w s z. Rows of `work`: x; z; the scores s.
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
def lacks_room(fields, rule):
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
def blended(fields, output, work):
    """Return the mean of what the fields predict, weighted with their activations."""
    numbers, vectors = fields.numbers[output], fields.vectors[output]
    total, weight = 0.0, 0.0
    for i in range(fields.used[output]):
        distance = squared_distance(vectors, i, work)
        w = exponential(-0.5 * distance) if distance < FAR else 0.0
        if w > NEAR and numbers[i, TRUSTED] > 0:
            sums, axes = fields.sums[output, i], fields.axes[output, i]
            value = numbers[i, MEAN_Y]
            for j in range(work.shape[1]):
                work[1, j] = work[0, j] - vectors[i, MEAN, j]
            for r in range(mature(sums, int(numbers[i, DIRECTIONS]), work)):
                value += sums[COEFFICIENT, r] * deflate(axes, r, work)
            total += w * value
            weight += w
    return total / weight if weight > 0 else 0.0


@compiled
def squared_distance(vectors, i, work):
    """Return (x - c)' diag(ROOT^2) (x - c) for field i."""
    total = 0.0
    for j in range(work.shape[1]):
        step = vectors[i, ROOT, j] * (work[0, j] - vectors[i, CENTER, j])
        total += step * step
    return total


@compiled
def mature(sums, directions, work):
    """Return how many directions count: the last one only once it is old enough."""
    if directions == 1 or sums[SAMPLES, directions - 1] > 2 * work.shape[1]:
        return directions
    return directions - 1


@compiled
def deflate(axes, r, work):
    """Return the score of z along direction r, and take that direction out of z."""
    score = 0.0
    for j in range(work.shape[1]):
        score += axes[PROJECTION, r, j] * work[1, j]
    for j in range(work.shape[1]):
        work[1, j] -= score * axes[LOADING, r, j]
    return score


@compiled
def learn_one(fields, rule, output, work, y):
    """Let every field near x learn, then generate or prune one if that is due."""
    numbers, vectors = fields.numbers[output], fields.vectors[output]
    sums, axes = fields.sums[output], fields.axes[output]
    nearest, second, winner, other = np.inf, np.inf, np.int64(-1), np.int64(-1)
    for i in range(fields.used[output]):
        distance = squared_distance(vectors, i, work)
        if distance < nearest:
            nearest, second, winner, other = distance, nearest, i, winner
        elif distance < second:
            second, other = distance, i
        if distance < FAR:
            w = exponential(-0.5 * distance)
            if w > NEAR:
                update(numbers[i], vectors[i], sums[i], axes[i], rule, work, w, y)
    largest = exponential(-0.5 * nearest)
    if largest > rule.generate_below:
        if exponential(-0.5 * second) > rule.prune_above:
            prune(fields, output, winner, other)
    elif fields.used[output] < rule.max_fields:
        known = largest > 0.1 * rule.generate_below and numbers[winner, TRUSTED] > 0
        generate(fields, rule, output, winner if known else -1, work, y)


@compiled
def update(numbers, vectors, sums, axes, rule, work, w, y):
    """Show a sample to one field, where it weighs w."""
    d, directions = work.shape[1], int(numbers[DIRECTIONS])
    numbers[TRUSTED] = 1.0 if sums[SAMPLES, 0] > 2 * d else 0.0
    target = update_means(numbers, vectors, sums, work, w, y)
    cv_error = update_regression(sums, axes, directions, work, w, target)
    error, used = target, mature(sums, directions, work)
    for j in range(d):
        work[1, j] = work[0, j] - vectors[MEAN, j]
    for r in range(directions):
        work[2, r] = deflate(axes, r, work)
        if r < used:
            error -= sums[COEFFICIENT, r] * work[2, r]
    if ready(sums, 0):
        kept = sums[FORGETTING, directions - 1]
        numbers[FIT_ERROR] = kept * numbers[FIT_ERROR] + w * error * error
        update_metric(numbers, vectors, sums, rule, work, w, error, cv_error)
    if wants_direction(sums, directions, rule, work):
        directions += 1
        numbers[DIRECTIONS] = directions
    for r in range(directions):
        kept = sums[FORGETTING, r]
        sums[SAMPLES, r] = kept * sums[SAMPLES, r] + 1
        sums[FORGETTING, r] = (
            rule.blend * kept + (1 - rule.blend) * rule.last_forgetting
        )


@compiled
def ready(sums, r):
    """Tell whether direction r has seen enough to take part in the metric's step."""
    return sums[SAMPLES, r] * (1 - sums[FORGETTING, 0]) > 0.1


@compiled
def update_means(numbers, vectors, sums, work, w, y):
    """Move the means; write x less its mean into z, return y less its mean."""
    past = sums[FORGETTING, 0] * sums[WEIGHT, 0]
    for j in range(work.shape[1]):
        mean = (past * vectors[MEAN, j] + w * work[0, j]) / (past + w)
        vectors[MEAN, j] = mean
        work[1, j] = work[0, j] - mean
    numbers[MEAN_Y] = (past * numbers[MEAN_Y] + w * y) / (past + w)
    return y - numbers[MEAN_Y]


@compiled
def update_regression(sums, axes, directions, work, w, e):
    """Update all directions; return the error of the coefficients as they were."""
    used, adapting, cv_error = mature(sums, directions, work), ready(sums, 0), e
    for r in range(directions):
        kept, score, norm, target = sums[FORGETTING, r], 0.0, 0.0, e
        for j in range(work.shape[1]):
            score += axes[PROJECTION, r, j] * work[1, j]
        e -= sums[COEFFICIENT, r] * score
        if r == used - 1:
            cv_error = e
        if adapting:
            sums[CV_ERROR, r] = kept * sums[CV_ERROR, r] + w * e * e
        sums[WEIGHT, r] = kept * sums[WEIGHT, r] + w
        sums[ENERGY, r] = kept * sums[ENERGY, r] + w * score * score
        sums[MOMENT, r] = kept * sums[MOMENT, r] + w * score * target
        # Inputs that never move let the energy fade until nothing is left of it.
        share = 1 / sums[ENERGY, r] if sums[ENERGY, r] > 1e-300 else 0.0
        sums[COEFFICIENT, r] = sums[MOMENT, r] * share
        for j in range(work.shape[1]):
            z = work[1, j]
            along = (0.9 + 0.1 * kept) * axes[COVARIANCE, r, j] + w * target * z
            axes[COVARIANCE, r, j] = along
            norm += along * along
            axes[CROSS, r, j] = kept * axes[CROSS, r, j] + w * score * z
            work[1, j] = z - score * axes[LOADING, r, j]
            axes[LOADING, r, j] = axes[CROSS, r, j] * share
        if norm > 1e-24:
            norm = 1 / math.sqrt(norm)
            for j in range(work.shape[1]):
                axes[PROJECTION, r, j] = axes[COVARIANCE, r, j] * norm
    return cv_error


@compiled
def update_metric(numbers, vectors, sums, rule, work, w, e, cv_error):
    """Take a step down the gradient of the stochastic leave-one-out error.

    ``slope`` and ``bend`` are its first two derivatives with respect to w. A wild step
    is not taken; the rate is halved instead.
    """
    d, directions = work.shape[1], int(numbers[DIRECTIONS])
    weight, cv_sum = sums[WEIGHT, 0], sums[CV_ERROR, mature(sums, directions, work) - 1]
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
def adapt_rate(rule, vectors, j, gradient, curvature):
    """Let the rate of one root grow while its gradients agree (Sutton, 1992)."""
    step = min(0.1, max(-0.1, rule.meta_rate * gradient * vectors[TRACE, j]))
    vectors[LOG_RATE, j] = min(10.0, max(-10.0, vectors[LOG_RATE, j] - step))
    rate = exponential(vectors[LOG_RATE, j])
    vectors[RATE, j] = rate
    kept = max(0.0, 1 - rate * curvature)
    vectors[TRACE, j] = kept * vectors[TRACE, j] - rate * gradient


@compiled
def wants_direction(sums, directions, rule, work):
    """Tell whether the last direction is settled and was worth having."""
    last = directions - 1
    if directions == work.shape[1]:
        return False
    mse = sums[CV_ERROR, last] / sums[WEIGHT, last] + TINY
    without = sums[CV_ERROR, last - 1] / sums[WEIGHT, last - 1] + TINY
    settled = sums[SAMPLES, last] * (1 - sums[FORGETTING, last]) > 0.5
    as_old = sums[SAMPLES, last] > 0.99 * sums[SAMPLES, 0]
    return settled and as_old and mse < rule.add_threshold * without


@compiled
def generate(fields, rule, output, like, work, y):
    """Place a field at x, shaped like field ``like``, or else the blank one, -1."""
    i = fields.used[output]
    fields.used[output] = i + 1
    copy_field(fields, output, i, -1)
    numbers, vectors = fields.numbers[output], fields.vectors[output]
    numbers[i, DIRECTIONS] = numbers[like, DIRECTIONS]
    numbers[i, MEAN_Y] = numbers[like, MEAN_Y] if like >= 0 else y
    for j in range(work.shape[1]):
        vectors[i, CENTER, j] = work[0, j]
        vectors[i, ROOT, j] = vectors[like, ROOT, j]
        rate = vectors[like, RATE, j] if like >= 0 else rule.init_rate
        vectors[i, RATE, j], vectors[i, LOG_RATE, j] = rate, logarithm(rate + TINY)


@compiled
def prune(fields, output, one, other):
    """Drop the narrower of two fields; the last one takes its place."""
    excess, vectors = 0.0, fields.vectors[output]
    for j in range(vectors.shape[2]):
        excess += vectors[one, ROOT, j] ** 2 - vectors[other, ROOT, j] ** 2
    fields.used[output] -= 1
    copy_field(fields, output, one if excess > 0 else other, fields.used[output])


@compiled
def copy_field(fields, output, target, source):
    """Let one field be what another is."""
    copy(fields.numbers[output, source], fields.numbers[output, target])
    copy(fields.vectors[output, source], fields.vectors[output, target])
    copy(fields.sums[output, source], fields.sums[output, target])
    copy(fields.axes[output, source], fields.axes[output, target])


@compiled
def copy(source, target):
    """Copy an array; slices would do, but take seconds to compile."""
    old, new = source.reshape(source.size), target.reshape(target.size)
    for k in range(old.size):
        new[k] = old[k]


@compiled
def exponential(x):
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
def logarithm(x):
    """Return ln x of a positive number, to 15 digits."""
    m, twos = math.frexp(x)
    if m < 0.7071067811865476:
        m, twos = 2 * m, twos - 1
    t, series = (m - 1) / (m + 1), 0.0
    for k in range(23, 0, -2):
        series = series * t * t + 1.0 / k
    return 2 * t * series + twos * 0.6931471805599453
