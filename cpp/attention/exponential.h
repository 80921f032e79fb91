// e^x and tanh x of whole vectors, to about 1 unit in the last place.
#pragma once

#include "lanes.h"

namespace orin::attention {

// e^x = power · (1 + rest), with power = 2^n and |rest| below 0.42: e^x - 1 keeps its precision near 0.
struct Exponential {
    Floats power;
    Floats rest;
};

// PRECOND: |x| <= 87, or not a number.
inline Exponential split_exp(Floats x) {
    // Adding 1.5 · 2^23 rounds to the nearest integer.
    const Floats rounder = fill(0x1.8p23f);
    const Floats n = (x * 0x1.715476p+0f + rounder) - rounder;  // x / ln 2
    Floats f = x - n * 0x1.62e4p-1f;                            // ln 2 in two parts, the first short: n · it is exact
    f = f - n * 0x1.7f7d1cp-20f;
    // Taylor's series: |f| <= 0.35 leaves 6e-9 behind the seventh power.
    Floats p = f * (1.0f / 5040) + 1.0f / 720;
    p = p * f + 1.0f / 120;
    p = p * f + 1.0f / 24;
    p = p * f + 1.0f / 6;
    p = p * f + 0.5f;
    p = p * f * f + f;
    const Ints bits = (__builtin_convertvector(n, Ints) + 127) << 23;
    return {reinterpret_cast<Floats>(bits), p};
}

// PRECOND: x <= 87, or not a number. 0 below -87.
inline Floats exp(Floats x) {
    const Floats lowest = fill(-87.0f);
    const Exponential e = split_exp(x < lowest ? lowest : x);
    const Floats y = e.power * e.rest + e.power;
    return x < lowest ? Floats{} : y;
}

inline float exp(float x) {
    return exp(fill(x))[0];
}

inline Floats tanh(Floats x) {
    const Floats lowest = fill(-40.0f);  // tanh is 1 there
    Floats twice = (x < 0.0f ? x : -x) * 2.0f;
    twice = twice < lowest ? lowest : twice;
    const Exponential e = split_exp(twice);
    const Floats minus_1 = e.power * e.rest + (e.power - 1.0f);  // e^-2|x| - 1
    const Floats y = minus_1 / (minus_1 + 2.0f);
    return x < 0.0f ? y : -y;
}

}  // namespace orin::attention
