"""The part of a header that only predicts, from weights; it has no state."""

from __future__ import annotations

PREDICT_LINEAR = """\
/* Predict a sample. */
static inline int model_predict(const double *x, double *mean)
{
    if (!model_is_good(x))
        return MODEL_BAD_SAMPLE;
    for (int t = 0; t < MODEL_OUTPUTS; t++)
        mean[t] = model_constant[t];
    for (int i = 0; i < MODEL_INPUTS; i++)
        for (int t = 0; t < MODEL_OUTPUTS; t++)
            mean[t] += x[i] * (double)model_weights[i * MODEL_OUTPUTS + t];
    return MODEL_DONE;
}
"""

PREDICT_WAVES = """\
/* Add weighted waves to the means. */
static inline void model_add(
    int count, const double *wave, const model_real *weights, double *mean)
{
    for (int j = 0; j < count; j++)
        for (int t = 0; t < MODEL_OUTPUTS; t++)
            mean[t] += wave[j] * (double)weights[j * MODEL_OUTPUTS + t];
}

/* Predict a sample. */
static inline int model_predict(const double *x, double *mean)
{
    double angle[MODEL_CHUNK], cosine[MODEL_CHUNK], sine[MODEL_CHUNK];  /*: sine */
    double angle[MODEL_CHUNK], cosine[MODEL_CHUNK];  /*: !sine */
    const model_real *second =  /*: sine */
        model_weights + MODEL_FREQUENCIES * MODEL_OUTPUTS;  /*: sine */
    if (!model_is_good(x))
        return MODEL_BAD_SAMPLE;
    for (int t = 0; t < MODEL_OUTPUTS; t++)
        mean[t] = model_constant[t];
    for (int start = 0; start < MODEL_FREQUENCIES; start += MODEL_CHUNK) {
        const int left = MODEL_FREQUENCIES - start;
        const int count = left < MODEL_CHUNK ? left : MODEL_CHUNK;
        model_angles(x, start, count, angle);
        model_waves(count, angle, sine, cosine);  /*: sine */
        model_waves(count, angle, cosine);  /*: !sine */
        model_add(count, cosine, model_weights + start * MODEL_OUTPUTS, mean);
        model_add(count, sine, second + start * MODEL_OUTPUTS, mean);  /*: sine */
    }
    return MODEL_DONE;
}
"""
