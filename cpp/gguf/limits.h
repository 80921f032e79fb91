// Every bound the preflight puts on a file, in one place. A message that refuses a file names the bound it broke.
#pragma once

#include <cstdint>

namespace orin::gguf::limits {

constexpr uint64_t kib = 1024;
constexpr uint64_t mib = 1024 * kib;
constexpr uint64_t gib = 1024 * mib;

// Container
constexpr uint64_t max_header_bytes = 256 * mib;  // header, metadata and tensor table; the largest in use are near 50
constexpr uint64_t max_metadata_keys = 4096;      // llama.cpp looks keys up one after the other
constexpr uint64_t max_tensors = 16384;           // llama.cpp compares every name with every other one
constexpr uint64_t max_key_bytes = 65535;         // of the format
constexpr uint64_t max_string_bytes = 64 * mib;   // some files carry a whole tokenizer.json in one string
constexpr uint64_t max_array_elements = 16 * mib;
constexpr uint64_t max_name_bytes = 63;  // ggml keeps a tensor's name in 64 bytes
constexpr uint64_t max_dims = 4;
constexpr uint64_t max_dimension = (1ull << 31) - 1;
constexpr uint64_t min_alignment = 32;  // ggml maps tensors in place and asserts on less
constexpr uint64_t max_alignment = 1 * mib;
constexpr uint64_t max_split_parts = 1024;

// Hyperparameters
constexpr uint64_t max_layers = 512;  // the size of llama.cpp's per-layer arrays
constexpr uint64_t max_experts = 1024;
constexpr uint64_t max_context_length = 1ull << 30;
constexpr uint64_t max_window = 1ull << 24;  // llama.cpp adds to it in 32 bits
constexpr uint64_t max_embedding = 1ull << 20;
constexpr uint64_t max_feed_forward = 1ull << 24;
constexpr uint64_t max_heads = 4096;
constexpr uint64_t max_head_size = 8192;
constexpr uint64_t max_expert_gating = 4;  // the last of llama.cpp's gating functions
constexpr uint64_t max_pooling_type = 4;   // the last of llama.cpp's pooling types
constexpr double max_epsilon = 1.0;

// Vocabulary
constexpr uint64_t max_vocab = 1ull << 21;
constexpr uint64_t max_token_bytes = 4096;    // llama.cpp recurses once per byte of a token
constexpr uint64_t max_token_work = 1 * gib;  // sum of squared token lengths: what decoding them all may cost

}  // namespace orin::gguf::limits
