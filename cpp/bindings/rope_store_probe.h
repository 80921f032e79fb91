// One layer from its projections to its attention, as upstream builds it, with the hook for RoPE on a GPU or without.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

#include "rope_probe.h"

namespace orin {

struct RopeStoreProbe {
    RopeProbe rope;
    int32_t n_head = 1;
    int32_t n_head_kv = 1;
    int32_t head_dim_k = 64;
    int32_t head_dim_v = 64;
    int32_t n_cells = 256;
    int32_t n_ctx = 64;          // positions that tables cover
    std::string k_type = "f16";  // as ggml names them
    std::string v_type = "f16";
    int32_t k_rotation = 0;  // as upstream does it for a quantized cache, in groups of so many values
    int32_t v_rotation = 0;
    float q_scale = 1.0f;  // behind RoPE
    int32_t n_readers = 1;
    // How the layer differs: "one_projection" (Q, K and V are parts of one tensor), "k_read_twice", "k_not_turned",
    // "q_not_turned", "k_turns_differently", "k_normed_behind", "stored_twice"; "": not
    std::string twist;
};

// The layer on the first GPU. q: [n_tokens, n_head, head_dim_k], k and v: [n_tokens, n_head_kv, head_dim]; positions
// and cells: [n_tokens]. Of the result: k_cells, v_cells (bytes of a row each), attention [n_tokens, n_head,
// head_dim_v], n_computed (nodes that are no views), report. Throws std::runtime_error where there is no GPU.
pybind11::dict run_rope_store(const RopeStoreProbe & probe, const pybind11::array_t<float> & q,
                              const pybind11::array_t<float> & k, const pybind11::array_t<float> & v,
                              const pybind11::array_t<int32_t> & positions, const pybind11::array_t<int64_t> & cells,
                              bool hook);

// Why the hook leaves such a layer as it is, or "". Needs no GPU.
std::string rope_store_misfit(const RopeStoreProbe & probe, int32_t n_tokens);

// Adds the class and the functions to _native.testing.
void bind_rope_store_probe(pybind11::module_ & m);

}  // namespace orin
