"""The part of a header that predicts and learns, after `_loops.learn_sample`.

Operations come in the order of the Python loops, so that the numbers agree to the last
bit where the compiler does not contract a product and a sum into one operation.
"""

from __future__ import annotations

STATE = """\
/* What has been learned, and workspace. */
typedef struct {
    model_real factor[MODEL_FACTOR]; /* R by rows: R'R = sum of phi phi' + ridge */
    model_real rotated[MODEL_FEATURES * MODEL_OUTPUTS]; /* Z: R'Z = sum of phi y' */
    double prior[MODEL_FEATURES]; /* what forgetting left of the ridge */  /*: fading */
    int64_t seen; /* samples */
    double counts[MODEL_OUTPUTS]; /* samples of each class, by weight */  /*: classes */
    double factors[MODEL_OUTPUTS]; /* counts to the -recode */  /*: recoded */
    model_real features[MODEL_FEATURES]; /* workspace */
    model_real target[MODEL_OUTPUTS]; /* workspace */
} model_state;
"""

RESET_LEARNED = """\
/* Begin with what the model had learned in Python. */
static inline void model_reset(model_state *state)
{
    for (int32_t i = 0; i < MODEL_FACTOR; i++)
        state->factor[i] = model_factor[i];
    for (int32_t i = 0; i < MODEL_FEATURES * MODEL_OUTPUTS; i++)
        state->rotated[i] = model_rotated[i];
    for (int i = 0; i < MODEL_FEATURES; i++)  /*: fading */
        state->prior[i] = model_prior[i];  /*: fading */
    for (int t = 0; t < MODEL_OUTPUTS; t++)  /*: classes */
        state->counts[t] = model_counts[t];  /*: classes */
    for (int t = 0; t < MODEL_OUTPUTS; t++)  /*: recoded */
        state->factors[t] = model_factors[t];  /*: recoded */
    state->seen = model_seen;
}
"""

RESET_EMPTY = """\
/* Begin with nothing learned. */
static inline void model_reset(model_state *state)
{
    model_real *row = state->factor;
    for (int k = 0; k < MODEL_FEATURES; k++) {
        const double ridge = k < MODEL_INTERCEPT ? 0.0 : model_ridge;  /*: intercept */
        const double ridge = model_ridge;  /*: !intercept */
        row[0] = (model_real)sqrt(ridge);
        for (int j = 1; j < MODEL_FEATURES - k; j++)
            row[j] = 0;
        row += MODEL_FEATURES - k;
        for (int t = 0; t < MODEL_OUTPUTS; t++)
            state->rotated[k * MODEL_OUTPUTS + t] = 0;
        state->prior[k] = ridge;  /*: fading */
    }
    for (int t = 0; t < MODEL_OUTPUTS; t++)  /*: classes */
        state->counts[t] = 0.0;  /*: classes */
    for (int t = 0; t < MODEL_OUTPUTS; t++)  /*: recoded */
        state->factors[t] = 0.0;  /*: recoded */
    state->seen = 0;
}
"""

SOLVE = """\
/* Predict from state->features: return phi'(R'R)^-1 phi, write the means. */
static inline double model_solve(model_state *state, double *mean)
{
    const model_real *MODEL_RESTRICT row = state->factor;
    const model_real *z = state->rotated;
    model_real *MODEL_RESTRICT phi = state->features;
    double leverage = 0.0;
    for (int t = 0; t < MODEL_OUTPUTS; t++)
        mean[t] = 0.0;
    for (int k = 0; k < MODEL_FEATURES; k++) {
        if (row[0] != 0) {
            const model_real v = phi[k] / row[0];
            leverage += (double)v * (double)v;
            for (int t = 0; t < MODEL_OUTPUTS; t++)
                mean[t] += (double)v * (double)z[t];
            for (int j = 1; j < MODEL_FEATURES - k; j++)
                phi[k + j] -= v * row[j];
        } else if (phi[k] != 0) { /* an intercept before its first sample */
            for (int t = 0; t < MODEL_OUTPUTS; t++)
                mean[t] = 0.0;
            return HUGE_VAL;
        }
        row += MODEL_FEATURES - k;
        z += MODEL_OUTPUTS;
    }
    return leverage;
}
"""

ROTATE = """\
/* A plane rotation, also of what has faded, and the next entry of v. */
typedef struct {
    double r, c, s, v;
    model_real a, b, f, g;
} model_turn;

/* Find the rotation of (d, x) into (r, 0). */
static inline model_turn model_find_turn(
    double d, double x, double fade, double *growth, int *known)
{
    model_turn turn;
    turn.r = sqrt(d * d + x * x);
    turn.c = 1.0;
    turn.s = turn.v = 0.0;
    if (turn.r > 0.0) {
        const double inverse = 1.0 / turn.r;
        turn.c = d * inverse;
        turn.s = x * inverse;
    }
    if (x != 0.0 && d == 0.0) {
        *known = 0;
    } else if (*known && turn.r > 0.0) {
        turn.v = x * *growth / d;
        *growth *= turn.r / d;
    }
    turn.a = (model_real)turn.c;
    turn.b = (model_real)turn.s;
    turn.f = (model_real)(turn.c * fade);
    turn.g = (model_real)(turn.s * fade);
    return turn;
}

/* Rotate the targets with a row of Z; add the row's share of the means. */
static inline void model_turn_targets(
    model_turn turn, double fade, model_real *MODEL_RESTRICT z,
    model_real *MODEL_RESTRICT target, double *MODEL_RESTRICT mean)
{
    for (int t = 0; t < MODEL_OUTPUTS; t++) {
        const model_real u = z[t], y = target[t];
        mean[t] += turn.v * fade * (double)u;
        z[t] = turn.f * u + turn.b * y;
        target[t] = turn.a * y - turn.g * u;
    }
}

/* Rotate the features with two rows of R at a time. */
static inline void model_turn_rows(
    model_turn one, model_turn two, int count, model_real *MODEL_RESTRICT upper,
    model_real *MODEL_RESTRICT lower, model_real *MODEL_RESTRICT tail)
{
    for (int j = 0; j < count; j++) {
        const model_real u = upper[j], w = lower[j], x = tail[j];
        const model_real turned = one.a * x - one.g * u;
        upper[j] = one.f * u + one.b * x;
        lower[j] = two.f * w + two.b * turned;
        tail[j] = two.a * turned - two.g * w;
    }
}

/* Rotate features and targets into fade * [R Z] from row `start` on.  Returns
   sqrt(1 + v'v) with fade * R'v = phi, and writes Z'v, the prediction before. */
static inline double model_rotate_in(
    model_state *state, double fade, int start, double *mean)
{
    model_real *phi = state->features, *target = state->target;
    model_real *z = state->rotated + (ptrdiff_t)start * MODEL_OUTPUTS;
    model_real *row = state->factor
        + ((ptrdiff_t)start * MODEL_FEATURES - (ptrdiff_t)start * (start - 1) / 2);
    double growth = 1.0;
    int known = 1, k = start;
    for (int t = 0; t < MODEL_OUTPUTS; t++)
        mean[t] = 0.0;
    for (; k + 1 < MODEL_FEATURES; k += 2) {
        model_real *next = row + (MODEL_FEATURES - k);
        const double right = (double)phi[k + 1], above = fade * (double)row[1];
        const model_turn one = model_find_turn(
            fade * (double)row[0], (double)phi[k], fade, &growth, &known);
        const model_turn two = model_find_turn(
            fade * (double)next[0], one.c * right - one.s * above, fade, &growth,
            &known);
        row[0] = (model_real)one.r;
        row[1] = (model_real)(one.c * above + one.s * right);
        next[0] = (model_real)two.r;
        model_turn_targets(one, fade, z, target, mean);
        model_turn_targets(two, fade, z + MODEL_OUTPUTS, target, mean);
        model_turn_rows(
            one, two, MODEL_FEATURES - k - 2, row + 2, next + 1, phi + k + 2);
        row = next + (MODEL_FEATURES - k - 1);
        z += 2 * MODEL_OUTPUTS;
    }
    if (k < MODEL_FEATURES) {
        const model_turn one = model_find_turn(
            fade * (double)row[0], (double)phi[k], fade, &growth, &known);
        row[0] = (model_real)one.r;
        model_turn_targets(one, fade, z, target, mean);
    }
    for (int t = 0; t < MODEL_OUTPUTS; t++)
        mean[t] = known ? mean[t] : 0.0;
    return known ? growth : HUGE_VAL;
}
"""

REFRESH = """\
/* Bring the ridge of a few features, in turn, back to its full value. */
static inline void model_refresh(model_state *state)
{
    double unused[MODEL_OUTPUTS];
    for (int j = 0; j < MODEL_FEATURES; j++)
        state->prior[j] *= model_forgetting;
    for (int turn = 0; turn < MODEL_REFRESHED; turn++) {
        const int i = (int)((state->seen * MODEL_REFRESHED + turn) % MODEL_FEATURES);
        const double nothing = sizeof(model_real) == 8 ? 1e-150 : 1e-36;
        model_real *row = state->factor
            + ((ptrdiff_t)i * MODEL_FEATURES - (ptrdiff_t)i * (i - 1) / 2);
        model_real *z = state->rotated + (ptrdiff_t)i * MODEL_OUTPUTS;
        for (int j = 1; j < MODEL_FEATURES - i; j++)
            row[j] = fabs((double)row[j]) < nothing ? 0 : row[j]; /* faster at rest */
        for (int t = 0; t < MODEL_OUTPUTS; t++)
            z[t] = fabs((double)z[t]) < nothing ? 0 : z[t];
        const double ridge = i < MODEL_INTERCEPT ? 0.0 : model_ridge;  /*: intercept */
        const double ridge = model_ridge;  /*: !intercept */
        const double missing = ridge - state->prior[i];
        if (!(missing > 0.0))
            continue;
        for (int j = i; j < MODEL_FEATURES; j++)
            state->features[j] = 0;
        state->features[i] = (model_real)sqrt(missing);
        for (int t = 0; t < MODEL_OUTPUTS; t++)
            state->target[t] = 0;
        model_rotate_in(state, 1.0, i, unused);
        state->prior[i] = ridge;
    }
}
"""

FORGET = """\
/* Let time pass without a sample. */
static inline void model_forget(model_state *state)
{
    double unused[MODEL_OUTPUTS];
    for (int j = 0; j < MODEL_FEATURES; j++)
        state->features[j] = 0;
    for (int t = 0; t < MODEL_OUTPUTS; t++)
        state->target[t] = 0;
    model_rotate_in(state, model_fade, 0, unused);
/*: if intercept */
    if ((double)state->factor[0] < 1e-30) { /* its digits would soon be lost */
        for (int j = 0; j < MODEL_FEATURES; j++)
            state->factor[j] = 0;
        for (int t = 0; t < MODEL_OUTPUTS; t++)
            state->rotated[t] = 0;
    }
/*: end */
    model_refresh(state);
}
"""

CHECK = """\
/* Return the size from which on numbers are refused: a weight multiplies them. */
static inline double model_limit_of(double weight)
{
    return weight > 1.0 ? model_limit / sqrt(weight) : model_limit;
}

/* Say what is wrong with a sample's inputs or its weight. */
static inline int model_check(const double *x, double weight)
{
    const double limit = model_limit_of(weight);  /*: linear */
    const double limit = model_limit;  /*: !linear */
    if (!(weight == 0.0 || (weight >= 1e-30 && weight <= 1e30)))
        return MODEL_BAD_WEIGHT;
    return model_are_good(MODEL_INPUTS, x, limit) ? MODEL_DONE : MODEL_BAD_SAMPLE;
}
"""

PREDICT = """\
/*: if bayesian */
/* Put what was found in the user's terms. */
static inline void model_answer(double leverage, double *mean, double *std)
{
    for (int t = 0; t < MODEL_OUTPUTS; t++)
        mean[t] += model_offset[t];
    if (std)
        *std = model_noise * sqrt(1.0 + leverage);
}

/* Predict a sample: write the means and, where the pointer is not 0, the standard
   deviation, noise included, which all outputs share. */
/*: end */
/*: if !bayesian */
/* Predict a sample: write the means and, where the pointer is not 0, the leverage
   phi'(R'R)^-1 phi, which tells how new the sample is. */
/*: end */
static inline int model_predict(
    model_state *state, const double *x, double *mean, double *SPREAD)
{
    double found;
    if (!model_are_good(MODEL_INPUTS, x, model_limit))
        return MODEL_BAD_SAMPLE;
    model_map(x, (double)state->seen * model_trend_step, state->features);  /*: trend */
    model_map(x, state->features);  /*: !trend */
    found = model_solve(state, mean);
    model_answer(found, mean, std);  /*: bayesian */
    if (leverage)  /*: !bayesian */
        *leverage = found;  /*: !bayesian */
    return MODEL_DONE;
}
"""

UPDATE = """\
/* Predict a sample, then learn it: the prediction knows nothing of y. */
static inline int model_predict_update(
    model_state *state, const double *x, const double *y, double weight,
    double *mean, double *SPREAD)
{
    const int status = model_check(x, weight);
    double centered[MODEL_OUTPUTS];  /*: bayesian */
    const double *centered = y;  /*: !bayesian */
    double root, growth;
    for (int t = 0; t < MODEL_OUTPUTS; t++)  /*: bayesian */
        centered[t] = y[t] - model_offset[t];  /*: bayesian */
    if (status != MODEL_DONE)
        return status;
    if (!model_are_good(MODEL_OUTPUTS, centered, model_limit_of(weight)))
        return MODEL_BAD_SAMPLE;
    if (weight == 0.0) {
        model_predict(state, x, mean, SPREAD);
        model_forget(state);  /*: fading */
        state->seen++;
        return MODEL_DONE;
    }
    root = sqrt(weight);
    model_map(x, (double)state->seen * model_trend_step, state->features);  /*: trend */
    model_map(x, state->features);  /*: !trend */
    if (weight != 1.0)
        for (int j = 0; j < MODEL_FEATURES; j++)
            state->features[j] *= (model_real)root;
    for (int t = 0; t < MODEL_OUTPUTS; t++)
        state->target[t] = (model_real)(root * centered[t]);
    growth = model_rotate_in(state, model_fade, 0, mean);  /*: fading */
    growth = model_rotate_in(state, 1.0, 0, mean);  /*: !fading */
    for (int t = 0; t < MODEL_OUTPUTS; t++)
        mean[t] /= root;
    growth = (growth * growth - 1.0) * model_forgetting / weight;  /*: fading */
    growth = (growth * growth - 1.0) / weight;  /*: !fading */
    model_refresh(state);  /*: fading */
    model_answer(growth, mean, std);  /*: bayesian */
    if (leverage)  /*: !bayesian */
        *leverage = growth;  /*: !bayesian */
    state->seen++;
    return MODEL_DONE;
}

/* Learn a sample. */
static inline int model_update(
    model_state *state, const double *x, const double *y, double weight)
{
    double unused[MODEL_OUTPUTS];
    return model_predict_update(state, x, y, weight, unused, 0);
}
"""
