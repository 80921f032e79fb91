// Rows of weights as matrix_product has them in shared memory, and the f16 values that a lane makes of them.
//
// A row is cut into units. A unit is what one lane of four, t, has a run of values of: t · unit / 4 … It takes them in
// eights. Which value of a product's sum stands where is free as long as activations agree, and this way a lane
// has few scales.
//
// Values of quantized weights are 64 times what they stand for, so that the products of small scales are normal f16
// numbers; weights may be up to 1023.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "even_words.cuh"
#include "half_bits.cuh"
#include "matrix.h"

namespace orin::cuda {

// --- bits

// n words of shared memory from an address that is even.
template <int n>
__device__ __forceinline__ void load_even(const char * from, uint32_t (&words)[n]) {
    EvenWords(from).read(from, words);
}
__device__ __forceinline__ void load_aligned(const char * bytes, uint32_t (&words)[4]) {
    const uint4 four = *reinterpret_cast<const uint4 *>(bytes);
    words[0] = four.x;
    words[1] = four.y;
    words[2] = four.z;
    words[3] = four.w;
}
__device__ __forceinline__ void load_aligned(const char * bytes, uint32_t (&words)[2]) {
    const uint2 two = *reinterpret_cast<const uint2 *>(bytes);
    words[0] = two.x;
    words[1] = two.y;
}

// Half 0 or 1 of the bits, twice.
__device__ __forceinline__ __half2 half_of(uint32_t bits, unsigned which) {
    return as_half2(__byte_perm(bits, 0, 0x1010 + which * 0x2222));
}

// Two neighbouring bytes of four become f16, less `offset`: 0x6400 + n is 1024 + n, so that all of it is exact.
template <int pair, uint32_t offset = 0>
__device__ __forceinline__ __half2 bytes_to_half2(uint32_t bytes) {
    const uint32_t bits = __byte_perm(bytes, 0x64646464, pair == 0 ? 0x4140 : 0x4342);
    return __hsub2(as_half2(bits), as_half2(0x64006400 + offset * 0x10001));
}

// 64 · d, exactly: a scale of a block, twice. Subnormal ones become normal.
__device__ __forceinline__ __half2 scale_of_block(uint32_t bits) {
    return __hmul2(half_of(bits, 0), as_half2(0x54005400));
}

// --- what types have in common

// What a lane keeps of a unit of a row.
struct TileScales {
    uint32_t scale;
    uint32_t low;
};

// unit: values. row_bytes: from row to row in shared memory, so that lanes find different banks. A row comes in
// pieces, aligned to their size: where units are not, 2 bytes of what is before it may come along.
template <int unit_values, int copied_bytes, int piece>
struct TileLayout {
    static constexpr int unit = unit_values;
    static constexpr int unit_bytes = copied_bytes;
    static constexpr int piece_bytes = piece;
    static constexpr int n_pieces = (copied_bytes + (piece == 4 ? 2 : 0) + piece - 1) / piece;
    static constexpr int row_bytes = n_pieces * piece;
};

// A type has, beside its layout:
//   scales(raw, t): of the unit at `raw`, for lane t of four
//   of_four(scales, n): for the n-th four of eights
//   values(raw, those, t, eight, odd, pairs): 8 values; odd: whether the row's number is
template <WeightType type>
struct WeightTile;

template <>
struct WeightTile<WeightType::f16> : TileLayout<64, 128, 16> {
    static constexpr float factor = 1.0f;
    // Pieces stand so that lanes of two rows find different banks: as those of activations.
    static __device__ __forceinline__ int place(int piece, int row) {
        return (piece % 2 * 4 + piece / 2) ^ (row % 2 * 4);
    }
    static __device__ __forceinline__ TileScales scales(const char *, int) { return {}; }
    static __device__ __forceinline__ TileScales of_four(TileScales scales, unsigned) { return scales; }
    static __device__ __forceinline__ void values(const char * raw, TileScales, int t, unsigned eight, int odd,
                                                  uint32_t (&pairs)[4]) {
        load_aligned(raw + ((int(eight) ^ odd) * 4 + t) * 16, pairs);
    }
};

template <typename Layout>
struct QuantTile : Layout {
    static constexpr float factor = 1.0f / 64;
    static __device__ __forceinline__ int place(int piece, int) { return piece; }
    static __device__ __forceinline__ TileScales of_four(TileScales scales, unsigned) { return scales; }
};

// 8 bytes of quants, less `offset`, times a scale.
template <uint32_t offset>
__device__ __forceinline__ void scale_bytes(const uint32_t (&quants)[2], __half2 scale, uint32_t (&pairs)[4]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        pairs[2 * i] = as_bits(__hmul2(bytes_to_half2<0, offset>(quants[i]), scale));
        pairs[2 * i + 1] = as_bits(__hmul2(bytes_to_half2<1, offset>(quants[i]), scale));
    }
}
// And more.
__device__ __forceinline__ void scale_bytes(const uint32_t (&quants)[2], __half2 scale, __half2 low,
                                            uint32_t (&pairs)[4]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        pairs[2 * i] = as_bits(__hfma2(bytes_to_half2<0>(quants[i]), scale, low));
        pairs[2 * i + 1] = as_bits(__hfma2(bytes_to_half2<1>(quants[i]), scale, low));
    }
}

// Bit `from` of each byte becomes its bit 4.
__device__ __forceinline__ uint32_t to_bit_4(uint32_t bytes, unsigned from) {
    return __funnelshift_r(bytes, bytes, from + 28);
}

template <int n>
__device__ __forceinline__ void take_nibbles(uint32_t (&words)[n], int shift) {
#pragma unroll
    for (int i = 0; i < n; i++) {
        words[i] = words[i] >> shift & 0x0F0F0F0F;
    }
}

// --- blocks of 32: a lane has one

template <>
struct WeightTile<WeightType::q8_0> : QuantTile<TileLayout<128, 4 * 34, 4>> {
    static __device__ __forceinline__ TileScales scales(const char * raw, int t) {
        return {as_bits(scale_of_block(*reinterpret_cast<const uint16_t *>(raw + t * 34))), 0};
    }
    static __device__ __forceinline__ void values(const char * raw, TileScales scales, int t, unsigned eight, int,
                                                  uint32_t (&pairs)[4]) {
        uint32_t words[2];
        load_even(raw + t * 34 + 2 + eight * 8, words);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            words[i] ^= 0x80808080;  // quant + 128
        }
        scale_bytes<128>(words, as_half2(scales.scale), pairs);
    }
};

template <>
struct WeightTile<WeightType::q4_0> : QuantTile<TileLayout<128, 4 * 18, 4>> {
    static __device__ __forceinline__ TileScales scales(const char * raw, int t) {
        return {as_bits(scale_of_block(*reinterpret_cast<const uint16_t *>(raw + t * 18))), 0};
    }
    static __device__ __forceinline__ void values(const char * raw, TileScales scales, int t, unsigned eight, int,
                                                  uint32_t (&pairs)[4]) {
        uint32_t words[2];
        load_even(raw + t * 18 + 2 + eight % 2 * 8, words);
        take_nibbles(words, eight / 2 * 4);
        scale_bytes<8>(words, as_half2(scales.scale), pairs);
    }
};

template <>
struct WeightTile<WeightType::q4_1> : QuantTile<TileLayout<128, 4 * 20, 4>> {
    static __device__ __forceinline__ TileScales scales(const char * raw, int t) {
        const uint32_t bits = *reinterpret_cast<const uint32_t *>(raw + t * 20);
        return {as_bits(scale_of_block(bits)), as_bits(scale_of_block(bits >> 16))};
    }
    static __device__ __forceinline__ void values(const char * raw, TileScales scales, int t, unsigned eight, int,
                                                  uint32_t (&pairs)[4]) {
        uint32_t words[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            words[i] = reinterpret_cast<const uint32_t *>(raw + t * 20 + 4 + eight % 2 * 8)[i];
        }
        take_nibbles(words, eight / 2 * 4);
        scale_bytes(words, as_half2(scales.scale), as_half2(scales.low), pairs);
    }
};

// --- blocks of 256: a lane has a quarter

// Of blocks that begin with d, dmin and 12 bytes with scales and minima: the two groups of 32 of lane t.
__device__ __forceinline__ TileScales scales_of_groups(const char * raw, int t) {
    uint32_t head[4];
    load_aligned(raw, head);
    const int shift = t % 2 * 16;
    const uint32_t first = head[1] >> shift, second = head[2] >> shift, third = head[3] >> shift;
    const uint32_t scales = t < 2 ? first & 0x3F3F : (third & 0x0F0F) | (first >> 2 & 0x3030);
    const uint32_t minima = t < 2 ? second & 0x3F3F : (third >> 4 & 0x0F0F) | (second >> 2 & 0x3030);
    const __half2 minus = __hmul2(half_of(head[0], 1), as_half2(0xD400D400));
    return {as_bits(__hmul2(bytes_to_half2<0>(scales), scale_of_block(head[0]))),
            as_bits(__hmul2(bytes_to_half2<0>(minima), minus))};
}

template <int block_bytes>
struct GroupsTile : QuantTile<TileLayout<256, block_bytes, 16>> {
    static __device__ __forceinline__ TileScales scales(const char * raw, int t) { return scales_of_groups(raw, t); }
    static __device__ __forceinline__ TileScales of_four(TileScales scales, unsigned n) {
        return {as_bits(half_of(scales.scale, n)), as_bits(half_of(scales.low, n))};
    }
};

template <>
struct WeightTile<WeightType::q4_K> : GroupsTile<144> {
    static __device__ __forceinline__ void values(const char * raw, TileScales scales, int t, unsigned eight, int,
                                                  uint32_t (&pairs)[4]) {
        uint32_t words[2];
        load_aligned(raw + 16 + t * 32 + eight % 4 * 8, words);
        take_nibbles(words, eight / 4 * 4);
        scale_bytes(words, as_half2(scales.scale), as_half2(scales.low), pairs);
    }
};

template <>
struct WeightTile<WeightType::q5_K> : GroupsTile<176> {
    static __device__ __forceinline__ void values(const char * raw, TileScales scales, int t, unsigned eight, int,
                                                  uint32_t (&pairs)[4]) {
        uint32_t words[2];
        uint32_t high[2];
        load_aligned(raw + 48 + t * 32 + eight % 4 * 8, words);
        load_aligned(raw + 16 + eight % 4 * 8, high);
        take_nibbles(words, eight / 4 * 4);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            words[i] |= to_bit_4(high[i], 2 * t + eight / 4) & 0x10101010;
        }
        scale_bytes(words, as_half2(scales.scale), as_half2(scales.low), pairs);
    }
};

template <>
struct WeightTile<WeightType::q6_K> : QuantTile<TileLayout<256, 210, 4>> {
    // Four groups of 16.
    static __device__ __forceinline__ TileScales scales(const char * raw, int t) {
        uint32_t bytes[1];
        load_even(raw + 192 + t * 4, bytes);
        bytes[0] ^= 0x80808080;  // scale + 128
        const __half2 d = scale_of_block(*reinterpret_cast<const uint16_t *>(raw + 208));
        return {as_bits(__hmul2(bytes_to_half2<0, 128>(bytes[0]), d)),
                as_bits(__hmul2(bytes_to_half2<1, 128>(bytes[0]), d))};
    }
    static __device__ __forceinline__ TileScales of_four(TileScales scales, unsigned n) {
        const uint32_t two = n == 0 ? scales.scale : scales.low;
        return {as_bits(half_of(two, 0)), as_bits(half_of(two, 1))};
    }
    // A half of the block has 64 bytes with the low bits of its first 64 values and of the others.
    static __device__ __forceinline__ void values(const char * raw, TileScales scales, int t, unsigned eight, int,
                                                  uint32_t (&pairs)[4]) {
        uint32_t words[2];
        uint32_t high[2];
        load_even(raw + t / 2 * 64 + eight * 8, words);
        load_even(raw + 128 + t / 2 * 32 + eight % 4 * 8, high);
        take_nibbles(words, t % 2 * 4);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            words[i] |= to_bit_4(high[i], t % 2 * 4 + eight / 4 * 2) & 0x30303030;
        }
        scale_bytes<32>(words, as_half2(eight % 4 < 2 ? scales.scale : scales.low), pairs);
    }
};

}  // namespace orin::cuda
