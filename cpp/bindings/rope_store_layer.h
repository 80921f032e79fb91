// The graph of one layer from its projections to its attention, as upstream builds it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../kv/paged_layer.h"
#include "ggml-cpp.h"
#include "rope_probe.h"

namespace orin {

// What the layer is like.
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
    float q_scale = 1.0f;       // behind RoPE
    std::vector<float> q_norm;  // weights of norms of the heads before RoPE, [head_dim_k]; empty: none
    std::vector<float> k_norm;
    float norm_eps = 0.0f;
    int32_t n_readers = 1;
    int64_t prefetched_bytes = 0;  // that its node asks for ahead: of the cells of K, which stand for weights
    // How the layer differs: "one_projection" (Q, K and V are parts of one tensor), "k_read_twice", "k_not_turned",
    // "q_not_turned", "k_turns_differently", "k_normed_behind", "stored_twice", "q_norm_read_twice", "q_norm_by_head"
    // (each has weights of its own); "": not
    std::string twist;
};

// Its parts on their way: weights and cells are allocated between the constructor and build().
class RopeStoreLayer {
   public:
    // probe: must outlive the layer. Throws std::invalid_argument where there is no such type of cells.
    RopeStoreLayer(const RopeStoreProbe & probe, int64_t n_tokens);

    void build();

    PagedLayer paged() const { return {k_cells, v_cells, 0, p.n_readers}; }

    const RopeStoreProbe & p;
    ggml_context_ptr weights;
    ggml_context_ptr nodes;
    ggml_cgraph * graph = nullptr;
    ggml_tensor * k_cells;
    ggml_tensor * v_cells;
    ggml_tensor * factors = nullptr;
    ggml_tensor * q_norm = nullptr;
    ggml_tensor * k_norm = nullptr;
    ggml_tensor * projection = nullptr;  // of Q, K and V together
    ggml_tensor * q = nullptr;
    ggml_tensor * k = nullptr;
    ggml_tensor * v = nullptr;
    ggml_tensor * positions = nullptr;
    ggml_tensor * k_index = nullptr;
    ggml_tensor * v_index = nullptr;
    ggml_tensor * k_rotation = nullptr;
    ggml_tensor * v_rotation = nullptr;
    ggml_tensor * mask = nullptr;
    ggml_tensor * attention = nullptr;

   private:
    ggml_tensor * input(ggml_type type, int64_t n0, int64_t n1 = 1, int64_t n2 = 1);
    void make_projections();
    ggml_tensor * normed(ggml_tensor * x, ggml_tensor * weight);
    ggml_tensor * turned_k();
    ggml_tensor * store(ggml_tensor * cells, ggml_tensor * x, ggml_tensor * index);
    ggml_tensor * heads_of(ggml_tensor * cells, int64_t head_dim);
    ggml_tensor * attention_over(ggml_tensor * q_cur);

    const int64_t n_tokens_;
};

}  // namespace orin
