"""The part of a header that makes features of a sample, after `_loops.map_sample`."""

from __future__ import annotations

CHUNK = 64  # angles at a time, on the stack

CHECK = """\
/* Tell whether all inputs are finite and small enough to be squared. */
static inline int model_is_good(const double *x)
{
    int good = 1;
    for (int i = 0; i < MODEL_INPUTS; i++)
        good &= fabs(x[i]) < model_limit;
    return good;
}
"""

WAVES = """\
/* Write the angles of some frequencies. */
static inline void model_angles(
    const double *MODEL_RESTRICT x, int start, int count,
    double *MODEL_RESTRICT angle)
{
    for (int j = 0; j < count; j++)
        angle[j] = 0.0;  /*: sine */
        angle[j] = model_phases[start + j];  /*: !sine */
    for (int i = 0; i < MODEL_INPUTS; i++) {
        const double *row = model_frequencies[i] + start;
        for (int j = 0; j < count; j++)
            angle[j] += x[i] * row[j];
    }
}

/* Write the scaled cosines of angles, and their sines.  Own polynomials: they  /*: sine */
   vectorise, and give the same bits whatever the C library. */  /*: sine */
/* Write the scaled cosines of angles.  Own polynomials: they vectorise, and  /*: !sine */
   give the same bits whatever the C library. */  /*: !sine */
static inline void model_waves(
    int count, const double *MODEL_RESTRICT angle,
    double *MODEL_RESTRICT sine,  /*: sine */
    double *MODEL_RESTRICT cosine)
{
    const double large = 6755399441055744.0; /* +, then - : rounds to integers */
    int beyond = 0;
    for (int j = 0; j < count; j++)
        beyond |= fabs(angle[j]) > 3000000.0;
    if (beyond) {
        for (int j = 0; j < count; j++) {
            sine[j] = model_scale * sin(angle[j]);  /*: sine */
            cosine[j] = model_scale * cos(angle[j]);
        }
        return;
    }
    for (int j = 0; j < count; j++) {
        const double turns = (angle[j] * 0.3183098861837907 + large) - large;
        const double r = ((angle[j] - turns * 3.1415926534682512)
                          - turns * 1.2154201012607932e-10)
                         - turns * 4.044532497591901e-21;
        const double pairs = (turns * 0.5 - 0.25 + large) - large;
        const double scale = model_scale * (1.0 - 2.0 * (turns - 2.0 * pairs));
        const double q = r * r;
        double p = -8.896791392450574e-22;
        p = p * q + 4.110317623312165e-19;
        p = p * q - 1.5619206968586225e-16;
        p = p * q + 4.779477332387385e-14;
        p = p * q - 1.1470745597729725e-11;
        p = p * q + 2.08767569878681e-09;
        p = p * q - 2.755731922398589e-07;
        p = p * q + 2.48015873015873e-05;
        p = p * q - 0.001388888888888889;
        p = p * q + 0.041666666666666664;
        cosine[j] = scale * ((1.0 - 0.5 * q) + q * q * p);
/*: if sine */
        p = 1.9572941063391263e-20;
        p = p * q - 8.22063524662433e-18;
        p = p * q + 2.8114572543455206e-15;
        p = p * q - 7.647163731819816e-13;
        p = p * q + 1.6059043836821613e-10;
        p = p * q - 2.505210838544172e-08;
        p = p * q + 2.7557319223985893e-06;
        p = p * q - 0.0001984126984126984;
        p = p * q + 0.008333333333333333;
        p = p * q - 0.16666666666666666;
        sine[j] = scale * (r + r * (q * p));
/*: end */
    }
}
"""

LINEAR_FEATURES = """\
/* Write the features of a sample. */
static inline void model_map(const double *x, model_real *features)
{
    features[0] = 1;  /*: intercept */
    for (int i = 0; i < MODEL_INPUTS; i++)
        features[MODEL_INTERCEPT + i] = (model_real)x[i];
}
"""

WAVE_FEATURES = """\
/* Write the features of a sample. */
static inline void model_map(
    const double *x, double trend, model_real *features)  /*: trend */
    const double *x, model_real *features)  /*: !trend */
{
    double angle[MODEL_CHUNK], cosine[MODEL_CHUNK], sine[MODEL_CHUNK];  /*: sine */
    double angle[MODEL_CHUNK], cosine[MODEL_CHUNK];  /*: !sine */
    model_real *cosines = features + MODEL_INTERCEPT;
    model_real *sines = cosines + MODEL_FREQUENCIES;  /*: sine */
    features[0] = 1;  /*: intercept */
    features[MODEL_FEATURES - 1] = (model_real)trend;  /*: trend */
    for (int start = 0; start < MODEL_FREQUENCIES; start += MODEL_CHUNK) {
        const int left = MODEL_FREQUENCIES - start;
        const int count = left < MODEL_CHUNK ? left : MODEL_CHUNK;
        model_angles(x, start, count, angle);
        model_waves(count, angle, sine, cosine);  /*: sine */
        model_waves(count, angle, cosine);  /*: !sine */
        for (int j = 0; j < count; j++)
            cosines[start + j] = (model_real)cosine[j];
        for (int j = 0; j < count; j++)  /*: sine */
            sines[start + j] = (model_real)sine[j];  /*: sine */
    }
}
"""
