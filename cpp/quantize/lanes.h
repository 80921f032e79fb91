// Eight numbers at a time, in the vectors of GCC and Clang: each lane computes what a scalar program would, operation
// by operation, so that the bits are the same. Needs -ffp-contract=off.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace orin::lanes {

constexpr int n_lanes = 8;
typedef float Floats __attribute__((vector_size(32)));
typedef int32_t Ints __attribute__((vector_size(32)));  // comparisons give -1 for true, 0 for false

inline Floats all(float value) {
    return Floats{} + value;
}

inline Floats select(Ints condition, Floats yes, Floats no) {
    return condition ? yes : no;
}

inline Floats absolute(Floats value) {
    return reinterpret_cast<Floats>(reinterpret_cast<Ints>(value) & 0x7fffffff);
}

inline Floats root(Floats value) {
    Floats result;
    for (int lane = 0; lane < n_lanes; ++lane) {
        result[lane] = std::sqrt(value[lane]);
    }
    return result;
}

// To the nearest whole number, halves to even, for numbers below 2^22: ggml's rule, and its bits for any other.
inline Ints nearest(Floats value) {
    const Floats shifted = value + 12582912.0f;  // 1.5 * 2^23: the whole number is in the low bits
    return (reinterpret_cast<Ints>(shifted) & 0x007fffff) - 0x00400000;
}

inline int nearest(float value) {
    const float shifted = value + 12582912.0f;
    int32_t bits;
    std::memcpy(&bits, &shifted, sizeof(bits));
    return (bits & 0x007fffff) - 0x00400000;
}

inline Floats clamped(Ints value, int least, int most) {
    value = value < least ? Ints{} + least : value;
    value = value > most ? Ints{} + most : value;
    return __builtin_convertvector(value, Floats);
}

// Of each lane, the first value of the largest size, with its sign. values: [n] of lanes.
template <int n>
Floats extreme_of(const Floats * values) {
    Floats size{};
    Floats extreme{};
    for (int i = 0; i < n; ++i) {
        const Floats at = absolute(values[i]);
        extreme = select(at > size, values[i], extreme);
        size = select(at > size, at, size);
    }
    return extreme;
}

// values: [n_lanes, n]; result: [n] of lanes.
template <int n>
void transpose(const float * values, Floats * result) {
    for (int lane = 0; lane < n_lanes; ++lane) {
        for (int i = 0; i < n; ++i) {
            result[i][lane] = values[lane * n + i];
        }
    }
}

}  // namespace orin::lanes
