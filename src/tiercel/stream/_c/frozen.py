"""The part of a header that only predicts, from weights; it has no state."""

from __future__ import annotations

LINEAR_SUM = """\
/* Add the weighted inputs to the means. */
static inline void model_sum(const double *x, double *mean)
{
    for (int i = 0; i < MODEL_INPUTS; i++)
        for (int t = 0; t < MODEL_OUTPUTS; t++)
            mean[t] += x[i] * (double)model_weights[i * MODEL_OUTPUTS + t];
}
"""

WAVE_SUM = """\
/* Add some weighted waves to the means. */
static inline void model_add(
    int count, const double *wave, const model_real *weights, double *mean)
{
    for (int j = 0; j < count; j++)
        for (int t = 0; t < MODEL_OUTPUTS; t++)
            mean[t] += wave[j] * (double)weights[j * MODEL_OUTPUTS + t];
}

/* Add the weighted features of a sample to the means. */
static inline void model_sum(const double *x, double *mean)
{
    double angle[MODEL_CHUNK], cosine[MODEL_CHUNK], sine[MODEL_CHUNK];  /*: sine */
    double angle[MODEL_CHUNK], cosine[MODEL_CHUNK];  /*: !sine */
    for (int start = 0; start < MODEL_FREQUENCIES; start += MODEL_CHUNK) {
        const int left = MODEL_FREQUENCIES - start;
        const int count = left < MODEL_CHUNK ? left : MODEL_CHUNK;
        const model_real *weights = model_weights + start * MODEL_OUTPUTS;
        model_angles(x, start, count, angle);
        model_waves(count, angle, sine, cosine);  /*: sine */
        model_waves(count, angle, cosine);  /*: !sine */
        model_add(count, cosine, weights, mean);
        weights += MODEL_FREQUENCIES * MODEL_OUTPUTS;  /*: sine */
        model_add(count, sine, weights, mean);  /*: sine */
    }
}
"""

PREDICT = """\
/* Predict a sample. */
static inline int model_predict(const double *x, double *mean)
{
    if (!model_are_good(MODEL_INPUTS, x, model_limit))
        return MODEL_BAD_SAMPLE;
    for (int t = 0; t < MODEL_OUTPUTS; t++)
        mean[t] = model_constant[t];
    model_sum(x, mean);
    return MODEL_DONE;
}
"""

CLASSIFY = """\
/* Classify a sample: write the scores and, where the pointer is not 0, the class. */
static inline int model_predict(const double *x, double *scores, int *answer)
{
    int best = 0;
    if (!model_are_good(MODEL_INPUTS, x, model_limit))
        return MODEL_BAD_SAMPLE;
    for (int t = 0; t < MODEL_OUTPUTS; t++)
        scores[t] = model_constant[t];
    model_sum(x, scores);
    for (int t = 1; t < MODEL_OUTPUTS; t++)
        best = scores[t] > scores[best] ? t : best;
    if (answer)
        *answer = best;
    return MODEL_DONE;
}
"""
