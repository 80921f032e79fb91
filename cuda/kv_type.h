// How K and V lie in a cell: as ggml stores rows of these types.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orin::cuda {

enum class KvType : int32_t { f16, bf16, q8_0, q4_0 };

constexpr int32_t kv_max_head_dim = 512;

// Of the quantized types: a scale in f16, then the values.
constexpr int32_t kv_block_values = 32;
constexpr int32_t q8_0_block_bytes = 34;  // int8
constexpr int32_t q4_0_block_bytes = 18;  // value i and value i + 16 in the halves of byte i, plus 8

constexpr bool is_quantized(KvType type) {
    return type == KvType::q8_0 || type == KvType::q4_0;
}

// PRECOND: n_values is a multiple of the block for a quantized type.
constexpr size_t kv_row_bytes(KvType type, int32_t n_values) {
    switch (type) {
        case KvType::f16:
        case KvType::bf16:
            return size_t(n_values) * 2;
        case KvType::q8_0:
            return size_t(n_values) / kv_block_values * q8_0_block_bytes;
        case KvType::q4_0:
            return size_t(n_values) / kv_block_values * q4_0_block_bytes;
    }
    return 0;
}

}  // namespace orin::cuda
