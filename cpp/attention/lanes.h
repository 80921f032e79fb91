// Vectors of floats as wide as the processor's registers, by the compiler's vector types: the same code for AVX-512,
// AVX2 and NEON, contracted to multiply-adds where the processor has them.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace orin::attention {

#if defined(__AVX512F__)
inline constexpr int lanes = 16;
inline constexpr int n_registers = 32;
inline constexpr int values_read = lanes;
#elif defined(__AVX2__)
inline constexpr int lanes = 8;
inline constexpr int n_registers = 16;
inline constexpr int values_read = lanes;
#elif defined(__aarch64__)
inline constexpr int lanes = 4;
inline constexpr int n_registers = 32;
inline constexpr int values_read = 16;
#else
#error "paged attention needs AVX2 with F16C, AVX-512, or NEON"
#endif

typedef float Floats __attribute__((vector_size(lanes * sizeof(float))));
typedef int32_t Ints __attribute__((vector_size(lanes * sizeof(int32_t))));

// What a row type of K or V reads of a row at once, from value i on. PRECOND: i % values_read == 0.
inline constexpr int vectors_read = values_read / lanes;

struct Values {
    Floats of[vectors_read];
};

template <typename T>
inline T read(const void * from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

inline Floats load(const float * from) {
    return read<Floats>(from);
}

inline void store(float * to, Floats v) {
    std::memcpy(to, &v, sizeof v);
}

inline Floats fill(float x) {
    return x - Floats{};
}

inline Floats larger(Floats a, Floats b) {
    return a > b ? a : b;
}

template <int... from>
inline Floats pick(Floats a, Floats b) {
#ifdef __clang__
    return __builtin_shufflevector(a, b, from...);
#else
    return __builtin_shuffle(a, b, Ints{from...});
#endif
}

#if defined(__aarch64__)
// Lane i: the sum of all lanes of v[i]. v: [lanes]
inline Floats sums_of(const Floats * v) {
    return vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3]));
}
#else
// In every group of 2 · width lanes, a folded onto its first half and b onto its second.
template <int width, int... lane>
inline Floats fold_pair(Floats a, Floats b, std::integer_sequence<int, lane...>) {
    return pick<((lane & width) ? lanes + lane : lane)...>(a, b) +
           pick<((lane & width) ? lanes + (lane ^ width) : (lane ^ width))...>(a, b);
}

// Lane i: the sum of all lanes of v[i]. v: [lanes]
template <int width = 1>
inline Floats sums_of(const Floats * v) {
    if constexpr (width == lanes) {
        return *v;
    } else {
        // v[i] ends in lane i: bit `width` of i chooses between the two halves of this step.
        return fold_pair<lanes / 2 / width>(sums_of<2 * width>(v), sums_of<2 * width>(v + lanes / 2 / width),
                                            std::make_integer_sequence<int, lanes>{});
    }
}
#endif

// to[i][j]: the sum of all lanes of v[i * n_columns + j]. v: [n_rows * n_columns], up to whole lanes; to: rows of width
template <int n_rows, int n_columns>
inline void store_sums(const Floats * v, float * to, int width) {
    constexpr int n = (n_rows * n_columns + lanes - 1) / lanes * lanes;
    float flat[n];
#pragma GCC unroll 16
    for (int i = 0; i < n; i += lanes) {
        store(flat + i, sums_of(v + i));
    }
#pragma GCC unroll 4
    for (int i = 0; i < n_rows; ++i) {
        std::memcpy(to + i * width, flat + i * n_columns, n_columns * sizeof(float));
    }
}

// Every lane exchanged with the one whose number differs by the bit `width`.
template <int width, int... lane>
inline Floats exchange(Floats v, std::integer_sequence<int, lane...>) {
    return pick<(lane ^ width)...>(v, v);
}

template <int width = lanes / 2>
inline float largest(Floats v) {
    if constexpr (width == 0) {
        return v[0];
    } else {
        return largest<width / 2>(larger(v, exchange<width>(v, std::make_integer_sequence<int, lanes>{})));
    }
}

template <int width = lanes / 2>
inline float sum_of(Floats v) {
    if constexpr (width == 0) {
        return v[0];
    } else {
        return sum_of<width / 2>(v + exchange<width>(v, std::make_integer_sequence<int, lanes>{}));
    }
}

}  // namespace orin::attention
