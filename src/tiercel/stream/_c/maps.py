"""The part of a header that makes features of a sample, after `_loops.map_sample`."""

from __future__ import annotations

from tiercel.stream import _loops
from tiercel.stream._c import header, text
from tiercel.stream._maps import StreamMap

CHUNK = 64  # angles at a time, on the stack

CHECK = """\
/* Tell whether all numbers are finite and below a limit. */
static inline int model_are_good(int count, const double *numbers, double limit)
{
    int good = 1;
    for (int i = 0; i < count; i++)
        good &= fabs(numbers[i]) < limit;
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

/* Write the cosines and sines of angles, scaled.  Own polynomials: they
   vectorise, and give the same bits whatever the C library. */
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


def flags_of(map: StreamMap) -> set[str]:
    """Return what the templates' lines depend on."""
    of = map.compiled
    kinds = {_loops.LINEAR: "linear", _loops.SINE_COSINE: "sine"}
    found = {kinds.get(of.kind, "phase")}
    found |= {"intercept"} if of.intercept else set()
    return found | ({"trend"} if map.trend_step > 0 else set())


def sizes_of(map: StreamMap) -> dict[str, int]:
    """Return the sizes that the templates use."""
    sizes = {"INPUTS": map.n_inputs}
    if map.compiled.kind != _loops.LINEAR:
        sizes |= {"FREQUENCIES": len(map.compiled.phases), "CHUNK": CHUNK}
    return sizes


def numbers_of(map: StreamMap) -> str:
    """Return the declarations of the map's numbers."""
    of = map.compiled
    if of.kind == _loops.LINEAR:
        return ""
    found = text.constant("model_scale", of.scale)
    found += text.table("double model_frequencies", of.frequencies)
    if of.kind == _loops.COSINE:
        found += text.table("double model_phases", of.phases)
    return found


def told_of(map: StreamMap, n_outputs: int, n_features: int) -> str:
    """Say in words what goes in and out, and what is between."""
    of = map.compiled
    kind = "phase" if of.kind == _loops.COSINE else "sincos"
    told = f"{len(of.phases):,} random frequencies ({kind})"
    if of.kind == _loops.LINEAR:
        told = "the inputs themselves"
    told += " and an intercept" if of.intercept else ""
    told += " and a trend" if map.trend_step > 0 else ""
    return (
        f"{header.counted(map.n_inputs, 'input')}, "
        f"{header.counted(n_outputs, 'output')}, "
        f"{header.counted(n_features, 'feature')}: {told}"
    )
