// Finds what lies between a layer's projections and its attention in a graph that was just built: norms of the heads of
// Q and K, their RoPE, the rotations that upstream puts before a quantized cache, and the stores of K and V into their
// cells.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "../kv/paged_layer.h"

struct ggml_cgraph;
struct ggml_tensor;

namespace orin {

// RMSNorm of each head.
struct HeadNorm {
    ggml_tensor * weight = nullptr;  // [head_dim]; null: heads are not normalised
    float eps = 0.0f;
};

struct RopeStoreSite {
    ggml_tensor * q = nullptr;  // [n_tokens, n_head, head_dim_k], before its norm and RoPE
    ggml_tensor * k = nullptr;  // [n_tokens, n_head_kv, head_dim_k]
    ggml_tensor * v = nullptr;  // [n_tokens, n_head_kv, head_dim_v]
    HeadNorm q_norm;
    HeadNorm k_norm;
    ggml_tensor * positions = nullptr;  // [n_tokens]
    ggml_tensor * cells = nullptr;      // [n_tokens], of K and V
    ggml_tensor * rope = nullptr;       // a node with the parameters that Q and K share
    float q_scale = 1.0f;               // of Q behind its RoPE
    int32_t k_hadamard = 0;             // Q and K are rotated behind RoPE in groups of so many values; 0: not
    int32_t v_hadamard = 0;
    ggml_tensor * q_ready = nullptr;       // what attention reads, [n_tokens, n_head, head_dim_k]
    int index = 0;                         // of the later store: all that is needed comes before it
    std::vector<ggml_tensor *> replaced;   // what this is now: readers before what they read, q_ready first
    std::vector<ggml_tensor *> rotations;  // the matrices among their sources
};

// The place of a layer, or why it is left as it is.
std::variant<RopeStoreSite, std::string> match_rope_store(const ggml_cgraph & graph, const PagedLayer & layer);

}  // namespace orin
