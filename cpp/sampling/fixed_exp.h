// The one exponential of the sampling rule: e^x in float32, and as an integer of 2^30 for x = 0.
//
// Every operation is one IEEE-754 binary32 operation rounded to nearest, ties to even (fma: one rounding), in the
// order written, so that any device gives the same bits. Never contract these expressions.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "device.h"

namespace orin::sampling {

constexpr int32_t weight_bits = 30;
constexpr uint32_t full_weight = 1u << weight_bits;
// The weight of this and of every lower argument is 0.
constexpr float zero_weight_argument = -22.0f;

// 2^scale · e^x. PRECOND: -87 <= x <= 0; 0 <= scale <= 30.
//
// x = n·ln 2 + f with |f| <= 0.35. f is rounded to a multiple of 2^-23: neighbours then differ by more than the
// polynomial's own rounding errors, which makes the result monotone (tests/core/test_sampling_arithmetic.cpp).
ORIN_HOST_DEVICE inline float scaled_exp(float x, int32_t scale) {
    const float n = std::rint(product(x, 0x1.715476p+0f));  // 1 / ln 2
    float f = std::fma(n, -0x1.62e43p-1f, x);               // ln 2 in two parts
    f = std::fma(n, 0x1.05c61p-29f, f);
    f = (f + 1.5f) - 1.5f;
    float p = 0x1.6d4362p-10f;
    p = std::fma(p, f, 0x1.123dcep-7f);
    p = std::fma(p, f, 0x1.5554e8p-5f);
    p = std::fma(p, f, 0x1.55547cp-3f);
    p = std::fma(p, f, 0.5f);
    p = std::fma(p, f, 1.0f);
    p = std::fma(p, f, 1.0f);
    const int32_t power_bits = (static_cast<int32_t>(n) + scale + 127) << 23;
    float power;  // 2^(n + scale)
    std::memcpy(&power, &power_bits, sizeof power);
    return product(p, power);
}

// round(2^30 · e^x), to nearest, ties to even; never grows as x falls. PRECOND: x <= 0, or -inf.
// Off by at most 1 + 2^-22.9 · 2^30 · e^x.
ORIN_HOST_DEVICE inline uint32_t fixed_exp(float x) {
    const float argument = x < zero_weight_argument ? zero_weight_argument : x;
    return static_cast<uint32_t>(static_cast<int32_t>(std::rint(scaled_exp(argument, weight_bits))));
}

}  // namespace orin::sampling
