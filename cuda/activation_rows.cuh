// How kernels write and read rows of activations. activation_rows.h says what lies where.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "activation_rows.h"

namespace orin::cuda {

// What f16 values of a row are multiplied by where whoever writes them does not see the whole row: up to a million
// fits, more is infinite, and what is lost below is 2^-21, as much as int8 loses in a group whose largest is 2^-13.
constexpr float unseen_row_factor = 16.0f;

__device__ __forceinline__ char * activation_row(const ActivationRows & rows, int64_t token) {
    return static_cast<char *>(rows.rows) + token * int64_t(activation_row_bytes(rows.format, rows.n_values));
}

// Of an int8 row: [n_values / 32]
__device__ __forceinline__ RowGroup * row_groups(char * row, int32_t n_values) {
    return reinterpret_cast<RowGroup *>(row + n_values);
}
__device__ __forceinline__ const RowGroup * row_groups(const char * row, int32_t n_values) {
    return reinterpret_cast<const RowGroup *>(row + n_values);
}

// Of an f16 row: what its values are multiplied by to be what they stand for.
__device__ __forceinline__ float & row_factor(char * row, int32_t n_values) {
    return *reinterpret_cast<float *>(row + int64_t(n_values) * 2);
}
__device__ __forceinline__ const float & row_factor(const char * row, int32_t n_values) {
    return *reinterpret_cast<const float *>(row + int64_t(n_values) * 2);
}

// The factor for f16 values of which the largest magnitude is known: that one becomes 2^14 to 2^15, so that values down
// to 2^-28 of it keep all bits. It is a normal number whatever the largest is.
__device__ __forceinline__ float f16_factor(float largest) {
    const int exponent = int(__float_as_uint(largest) >> 23 & 0xFF);
    return __int_as_float((max(exponent, 27) - 14) << 23);
}
// Its inverse, which is exact.
__device__ __forceinline__ float inverse_of_f16_factor(float factor) {
    return __int_as_float((254 << 23) - __float_as_int(factor));
}

namespace rows_detail {

constexpr unsigned whole_warp = 0xFFFFFFFF;

// Of all values of `lanes` neighbouring lanes; NaN where one is.
template <int lanes, int n>
__device__ __forceinline__ float largest_magnitude_of(const float (&values)[n]) {
    unsigned bits = 0;  // they order magnitudes, NaN above infinity
#pragma unroll
    for (int i = 0; i < n; i++) {
        bits = max(bits, __float_as_uint(fabsf(values[i])));
    }
    if constexpr (lanes == 32) {
        bits = __reduce_max_sync(whole_warp, bits);
    } else {
#pragma unroll
        for (int distance = lanes / 2; distance > 0; distance /= 2) {
            bits = max(bits, __shfl_xor_sync(whole_warp, bits, distance));
        }
    }
    return __uint_as_float(bits);
}

template <typename Value, int n>
struct alignas(n * sizeof(Value) < 16 ? n * sizeof(Value) : 16) Together {
    Value values[n];
};

}  // namespace rows_detail

// A lane has n neighbouring values, 1, 2, 4 or 8, from `first` on, a multiple of n. Where that is outside of the row it
// takes part and stores nothing.

// All lanes of the warp take part; 32 / n neighbouring ones have a group. Rounds to the nearest, ties to even. A group
// of nothing but numbers below 2^-119 is zeros; one with an infinity or NaN has a scale that makes all it enters NaN.
template <int n>
__device__ __forceinline__ void store_int8_values(char * row, int32_t n_values, int32_t first,
                                                  const float (&values)[n]) {
    constexpr int lanes = row_group_values / n;
    constexpr float smallest_normal = 1.17549435e-38f;
    const float largest = rows_detail::largest_magnitude_of<lanes>(values);
    const float scale = largest * (1.0f / 127.0f);
    const bool is_number = scale >= smallest_normal && scale <= 3.4e38f;
    const float inverse = is_number ? 1.0f / scale : 0.0f;
    rows_detail::Together<int8_t, n> quants;
    int sum = 0;
#pragma unroll
    for (int i = 0; i < n; i++) {
        const int quant = is_number ? __float2int_rn(values[i] * inverse) : 0;
        quants.values[i] = int8_t(quant);
        sum += quant;
    }
    int second;  // the sum of the group's other half, where the lane is its first
    if constexpr (n == 1) {
        const int all = int(__reduce_add_sync(rows_detail::whole_warp, unsigned(sum)));
        sum = int(__reduce_add_sync(rows_detail::whole_warp, unsigned((first & 16) == 0 ? sum : 0)));
        second = all - sum;
    } else {
#pragma unroll
        for (int distance = lanes / 4; distance > 0; distance /= 2) {
            sum += __shfl_xor_sync(rows_detail::whole_warp, sum, distance);
        }
        second = __shfl_xor_sync(rows_detail::whole_warp, sum, lanes / 2);
    }
    if (first < 0 || first >= n_values) {
        return;
    }
    *reinterpret_cast<rows_detail::Together<int8_t, n> *>(row + first) = quants;
    if (first % row_group_values == 0) {
        const float stored = scale < smallest_normal ? 0.0f : scale;
        row_groups(row, n_values)[first / row_group_values] = {
            stored, {stored * float(sum), stored * float(second)}, 0.0f};
    }
}

// `factor` is a power of two, the same for the whole row; the lane with the first value writes it.
template <int n>
__device__ __forceinline__ void store_f16_values(char * row, int32_t n_values, int32_t first, const float (&values)[n],
                                                 float factor) {
    if (first < 0 || first >= n_values) {
        return;
    }
    const float inverse = inverse_of_f16_factor(factor);
    rows_detail::Together<__half, n> halves;
#pragma unroll
    for (int i = 0; i < n; i++) {
        halves.values[i] = __float2half_rn(values[i] * inverse);
    }
    *reinterpret_cast<rows_detail::Together<__half, n> *>(row + int64_t(first) * 2) = halves;
    if (first == 0) {
        row_factor(row, n_values) = factor;
    }
}

template <int n>
__device__ __forceinline__ void store_f32_values(char * row, int32_t n_values, int32_t first,
                                                 const float (&values)[n]) {
    if (first >= 0 && first < n_values) {
        rows_detail::Together<float, n> floats;
#pragma unroll
        for (int i = 0; i < n; i++) {
            floats.values[i] = values[i];
        }
        *reinterpret_cast<rows_detail::Together<float, n> *>(row + int64_t(first) * 4) = floats;
    }
}

// In whatever format the rows have; for those who do not see the whole row. All lanes of the warp take part, and have
// the same token or different ones; 32 / n neighbouring ones have a group of one token.
template <int n>
__device__ __forceinline__ void store_row_values(const ActivationRows & rows, int64_t token, int32_t first,
                                                 const float (&values)[n], float factor = unseen_row_factor) {
    char * row = activation_row(rows, token);
    switch (rows.format) {
        case RowFormat::f32:
            return store_f32_values(row, rows.n_values, first, values);
        case RowFormat::int8:
            return store_int8_values(row, rows.n_values, first, values);
        case RowFormat::f16:
            return store_f16_values(row, rows.n_values, first, values, factor);
    }
}

}  // namespace orin::cuda
