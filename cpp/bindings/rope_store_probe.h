// One layer (rope_store_layer.h) with the hook for RoPE on a GPU or without.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <utility>

#include "rope_store_layer.h"

namespace orin {

// The layer on the first GPU. q: [n_tokens, n_head, head_dim_k], k and v: [n_tokens, n_head_kv, head_dim]; positions
// and cells: [n_tokens]. Of the result: k_cells, v_cells (bytes of a row each), attention [n_tokens, n_head,
// head_dim_v], n_computed (nodes that are no views), report. Throws std::runtime_error where there is no GPU.
pybind11::dict run_rope_store(const RopeStoreProbe & probe, const pybind11::array_t<float> & q,
                              const pybind11::array_t<float> & k, const pybind11::array_t<float> & v,
                              const pybind11::array_t<int32_t> & positions, const pybind11::array_t<int64_t> & cells,
                              bool hook);

// Why the hook leaves such a layer as it is, or "". Needs no GPU.
std::string rope_store_misfit(const RopeStoreProbe & probe, int32_t n_tokens);

// Whether the norms of Q and of K become part of the node. PRECOND: such a layer fits.
std::pair<bool, bool> rope_store_norms(const RopeStoreProbe & probe);

// Adds the class and the functions to _native.testing.
void bind_rope_store_probe(pybind11::module_ & m);

}  // namespace orin
