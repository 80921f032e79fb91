// Rows of K and V as floats, eight values at a time.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <device/intrinsics.cuh>

#include "paged_kv.h"

namespace orin::cuda {

// Values that one thread reads at a time: 16 bytes of f16.
constexpr int kv_unit = 8;

// Where the eight values of a unit lie in their row.
struct UnitPlace {
    int block;   // in bytes; of a quantized type: its scale
    int values;  // in bytes, from there
    int shift;   // q4_0: the second half of a block is in the upper halves of its bytes
};

__device__ __forceinline__ UnitPlace place_of_unit(KvType type, int i) {
    constexpr int units = kv_block_values / kv_unit;
    switch (type) {
        case KvType::q8_0:
            return {i / units * q8_0_block_bytes, 2 + i % units * kv_unit, 0};
        case KvType::q4_0:
            return {i / units * q4_0_block_bytes, 2 + i % (units / 2) * kv_unit, i % units / (units / 2) * 4};
        default:
            return {0, i * 16, 0};
    }
}

// A unit as it is stored, so that several loads can be under way before the first is unpacked. PRECOND: rows are
// aligned to 16 bytes, of a quantized type to 2.
template <KvType type>
struct PackedUnit {
    uint4 words;

    __device__ __forceinline__ void load(const char * row, const UnitPlace & at) {
        words = load_streaming(reinterpret_cast<const uint4 *>(row + at.values));
    }

    __device__ __forceinline__ void unpack(const UnitPlace &, float (&values)[kv_unit]) const {
        const uint32_t pairs[] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < kv_unit / 2; i++) {
            const uint32_t pair = pairs[i];
            if constexpr (type == KvType::f16) {
                values[2 * i] = __half2float(__ushort_as_half(static_cast<unsigned short>(pair & 0xFFFF)));
                values[2 * i + 1] = __half2float(__ushort_as_half(static_cast<unsigned short>(pair >> 16)));
            } else {
                values[2 * i] = __uint_as_float(pair << 16);
                values[2 * i + 1] = __uint_as_float(pair & 0xFFFF0000);
            }
        }
    }
};

struct PackedQuants {
    uint16_t pairs[kv_unit / 2];
    __half scale;

    __device__ __forceinline__ void load(const char * row, const UnitPlace & at) {
        scale = *reinterpret_cast<const __half *>(row + at.block);
        const auto * from = reinterpret_cast<const uint16_t *>(row + at.block + at.values);
#pragma unroll
        for (int i = 0; i < kv_unit / 2; i++) {
            pairs[i] = from[i];
        }
    }
};

template <>
struct PackedUnit<KvType::q8_0> : PackedQuants {
    __device__ __forceinline__ void unpack(const UnitPlace &, float (&values)[kv_unit]) const {
#pragma unroll
        for (int i = 0; i < kv_unit / 2; i++) {
            values[2 * i] = __half2float(scale) * float(int8_t(pairs[i] & 0xFF));
            values[2 * i + 1] = __half2float(scale) * float(int8_t(pairs[i] >> 8));
        }
    }
};

template <>
struct PackedUnit<KvType::q4_0> : PackedQuants {
    __device__ __forceinline__ void unpack(const UnitPlace & at, float (&values)[kv_unit]) const {
#pragma unroll
        for (int i = 0; i < kv_unit / 2; i++) {
            values[2 * i] = __half2float(scale) * float((pairs[i] >> at.shift & 15) - 8);
            values[2 * i + 1] = __half2float(scale) * float((pairs[i] >> (8 + at.shift) & 15) - 8);
        }
    }
};

// Calls f with a PackedUnit of the type.
template <typename Function>
__device__ __forceinline__ void with_kv_unit(KvType type, const Function & f) {
    switch (type) {
        case KvType::f16:
            return f(PackedUnit<KvType::f16>{});
        case KvType::bf16:
            return f(PackedUnit<KvType::bf16>{});
        case KvType::q8_0:
            return f(PackedUnit<KvType::q8_0>{});
        case KvType::q4_0:
            return f(PackedUnit<KvType::q4_0>{});
    }
}

// The cell of a position. table: the row of the sequence
__device__ __forceinline__ int kv_cell(const PagedKv & kv, const int32_t * table, int position) {
    return table[position / kv.page_size] * kv.page_size + position % kv.page_size;
}

}  // namespace orin::cuda
