"""The part of a header that classifies and learns classes, after `ClassModels`."""

from __future__ import annotations

PREDICT = """\
/* Recode the scores; return the class of the best, -1 if nothing has been learned. */
static inline int model_answer(const model_state *state, double *scores)
{
    double best = 0.0, total = 0.0;
    int answer = -1;
    for (int t = 0; t < MODEL_OUTPUTS; t++) {
        const double score = scores[t] * state->factors[t];  /*: recoded */
        const double score = scores[t];  /*: !recoded */
        if (state->counts[t] > 0.0 && (answer < 0 || score > best)) {
            answer = t;
            best = score;
        }
        total += state->counts[t];
    }
    total = pow(total, model_recode);  /*: recoded */
    for (int t = 0; t < MODEL_OUTPUTS; t++) {
        scores[t] *= total * state->factors[t];  /*: recoded */
        if (!(state->counts[t] > 0.0))
            scores[t] = -HUGE_VAL;
    }
    return answer;
}

/* Classify a sample: write the scores and, where the pointer is not 0, the class. */
static inline int model_predict(
    model_state *state, const double *x, double *scores, int *answer)
{
    int found;
    if (!model_are_good(MODEL_INPUTS, x, model_limit))
        return MODEL_BAD_SAMPLE;
    model_map(x, state->features);
    model_solve(state, scores);
    found = model_answer(state, scores);
    if (answer)
        *answer = found;
    return MODEL_DONE;
}
"""

UPDATE = """\
/* Classify a sample, then learn its class `label`: the answer knows nothing of it. */
static inline int model_predict_update(
    model_state *state, const double *x, int label, double weight, double *scores,
    int *answer)
{
    const int status = model_check(x, weight);
    double root;
    int found;
    if (status != MODEL_DONE)
        return status;
    if (label < 0 || label >= MODEL_OUTPUTS)
        return MODEL_BAD_LABEL;
    if (weight == 0.0) {
        model_predict(state, x, scores, answer);
        state->seen++;
        return MODEL_DONE;
    }
    root = sqrt(weight);
    model_map(x, state->features);
    if (weight != 1.0)
        for (int j = 0; j < MODEL_FEATURES; j++)
            state->features[j] *= (model_real)root;
    for (int t = 0; t < MODEL_OUTPUTS; t++)
        state->target[t] = t == label ? (model_real)root : 0;
    model_rotate_in(state, 1.0, 0, scores);
    for (int t = 0; t < MODEL_OUTPUTS; t++)
        scores[t] /= root;
    found = model_answer(state, scores);
    if (answer)
        *answer = found;
    state->counts[label] += weight;
    state->factors[label] = pow(state->counts[label], -model_recode);  /*: recoded */
    state->seen++;
    return MODEL_DONE;
}

/* Learn a sample. */
static inline int model_update(
    model_state *state, const double *x, int label, double weight)
{
    double unused[MODEL_OUTPUTS];
    return model_predict_update(state, x, label, weight, unused, 0);
}
"""
