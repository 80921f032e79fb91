// One RoPE node through the patched CPU backend, with and without a table.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "../hooks/engine_hooks.h"
#include "ggml.h"

namespace orin {

// The parameters of ggml_rope_ext and ggml_rope_multi.
struct RopeProbe {
    int32_t mode = 0;  // GGML_ROPE_TYPE_*
    int32_t n_dims = 0;
    int32_t n_offs = 0;
    int32_t n_ctx_orig = 0;
    float freq_base = 10000.0f;
    float freq_scale = 1.0f;
    float ext_factor = 0.0f;
    float attn_factor = 1.0f;
    float beta_fast = 32.0f;
    float beta_slow = 1.0f;
    std::array<int32_t, 4> sections{};
    std::vector<float> freq_factors;  // [n_dims / 2], or empty
    bool factors_are_weights = true;  // false: in a buffer whose content may change
    bool f16 = false;
    bool backward = false;  // the inverse rotation
    int n_threads = 1;
};

// The node as upstream makes it. factors: may be null
ggml_tensor * rope_node(const RopeProbe & probe, ggml_context * context, ggml_tensor * x, ggml_tensor * positions,
                        ggml_tensor * factors);

// x and the result: [n_batch, n_tokens, n_head, head_dim], the sizes in that order in `shape`.
// positions: [n_tokens], or [4, n_tokens] for the multi-section modes. `hooks` may be null.
std::vector<float> run_rope(const RopeProbe & probe, const std::array<int64_t, 4> & shape, const std::vector<float> & x,
                            const std::vector<int32_t> & positions, EngineHooks * hooks);

}  // namespace orin
