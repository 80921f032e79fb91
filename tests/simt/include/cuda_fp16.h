// Stands in for CUDA's header: IEEE binary16 by its bits. Arithmetic is done in float or double and rounded once, to
// the nearest, which gives the correctly rounded result of one operation.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "vector_types.h"

struct __half {
    uint16_t bits;

    __half() = default;
    explicit __half(float value);
    explicit operator float() const;
};

struct alignas(4) __half2 {
    __half x, y;
};

using half = __half;
using half2 = __half2;

namespace simt {

inline uint16_t half_bits(double value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double size = std::fabs(value);
    if (std::isnan(size)) {
        return 0x7FFF;
    }
    if (size >= 65520.0) {  // rounds to more than the largest, 65504
        return static_cast<uint16_t>(sign | 0x7C00);
    }
    if (size < 0x1p-14) {  // subnormal: steps of 2^-24, ties to even
        return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(size * 0x1p24)));
    }
    int exponent = 0;
    const double fraction = std::frexp(size, &exponent);                          // [0.5, 1)
    const auto steps = static_cast<uint32_t>(std::nearbyint(fraction * 2048.0));  // 1024 … 2048
    return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(exponent + 14) << 10) + steps - 1024));
}

inline float half_value(uint16_t bits) {
    const int exponent = bits >> 10 & 0x1F;
    const auto fraction = static_cast<float>(bits & 0x3FF);
    float size = std::ldexp(exponent == 0 ? fraction : fraction + 1024.0f, (exponent == 0 ? 1 : exponent) - 25);
    if (exponent == 0x1F) {
        size = fraction == 0.0f ? INFINITY : NAN;
    }
    return (bits & 0x8000) != 0 ? -size : size;
}

inline __half half_of(double value) {
    __half result;
    result.bits = half_bits(value);
    return result;
}

}  // namespace simt

inline __half::__half(float value) : bits(simt::half_bits(value)) {}
inline __half::operator float() const {
    return simt::half_value(bits);
}

inline float __half2float(__half value) {
    return simt::half_value(value.bits);
}
inline __half __float2half(float value) {
    return __half(value);
}
inline __half __float2half_rn(float value) {
    return __half(value);
}
inline __half2 __floats2half2_rn(float x, float y) {
    return {__half(x), __half(y)};
}
inline __half2 __half2half2(__half value) {
    return {value, value};
}
inline __half2 __halves2half2(__half x, __half y) {
    return {x, y};
}
inline float __low2float(__half2 value) {
    return __half2float(value.x);
}
inline float __high2float(__half2 value) {
    return __half2float(value.y);
}
inline __half __ushort_as_half(unsigned short bits) {
    __half result;
    result.bits = bits;
    return result;
}
inline unsigned short __half_as_ushort(__half value) {
    return value.bits;
}

inline __half __hadd(__half a, __half b) {
    return simt::half_of(double{float(a)} + double{float(b)});
}
inline __half __hsub(__half a, __half b) {
    return simt::half_of(double{float(a)} - double{float(b)});
}
inline __half __hmul(__half a, __half b) {
    return simt::half_of(double{float(a)} * double{float(b)});
}
inline __half __hfma(__half a, __half b, __half c) {
    return simt::half_of(std::fma(double{float(a)}, double{float(b)}, double{float(c)}));
}
inline __half2 __hadd2(__half2 a, __half2 b) {
    return {__hadd(a.x, b.x), __hadd(a.y, b.y)};
}
inline __half2 __hsub2(__half2 a, __half2 b) {
    return {__hsub(a.x, b.x), __hsub(a.y, b.y)};
}
inline __half2 __hmul2(__half2 a, __half2 b) {
    return {__hmul(a.x, b.x), __hmul(a.y, b.y)};
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

inline float2 __half22float2(__half2 value) {
    return {float(value.x), float(value.y)};
}
inline __half2 __float22half2_rn(float2 value) {
    return {__half(value.x), __half(value.y)};
}
