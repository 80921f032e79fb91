#include "rope_store_layer.h"

#include <cmath>
#include <stdexcept>

#include "ggml-impl.h"
#include "llama-impl.h"

namespace orin {
namespace {

constexpr size_t max_tensors = 128;

ggml_context_ptr make_context() {
    const size_t bytes = max_tensors * ggml_tensor_overhead() + ggml_graph_overhead();
    return ggml_context_ptr(ggml_init({bytes, /*mem_buffer=*/nullptr, /*no_alloc=*/true}));
}

ggml_type type_named(const std::string & name) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
        if (name == ggml_type_name(type)) {
            return type;
        }
    }
    throw std::invalid_argument("no such type of cells: " + name);
}

}  // namespace

RopeStoreLayer::RopeStoreLayer(const RopeStoreProbe & probe, int64_t n_tokens)
    : p(probe), weights(make_context()), nodes(make_context()), n_tokens_(n_tokens) {
    ggml_context * c = weights.get();
    k_cells = ggml_new_tensor_2d(c, type_named(p.k_type), int64_t{p.head_dim_k} * p.n_head_kv, p.n_cells);
    v_cells = ggml_new_tensor_2d(c, type_named(p.v_type), int64_t{p.head_dim_v} * p.n_head_kv, p.n_cells);
    if (!p.rope.freq_factors.empty()) {
        factors = ggml_new_tensor_1d(c, GGML_TYPE_F32, int64_t(p.rope.freq_factors.size()));
    }
    if (!p.q_norm.empty()) {
        q_norm = ggml_new_tensor_2d(c, GGML_TYPE_F32, p.head_dim_k, p.twist == "q_norm_by_head" ? p.n_head : 1);
    }
    if (!p.k_norm.empty()) {
        k_norm = ggml_new_tensor_1d(c, GGML_TYPE_F32, p.head_dim_k);
    }
    ggml_set_name(k_cells, "k_cells");
    ggml_set_name(v_cells, "v_cells");
}

void RopeStoreLayer::build() {
    ggml_context * c = nodes.get();
    graph = ggml_new_graph(c);
    positions = input(GGML_TYPE_I32, (p.rope.mode & GGML_ROPE_TYPE_MROPE) != 0 ? 4 * n_tokens_ : n_tokens_);
    k_index = input(GGML_TYPE_I64, n_tokens_);
    v_index = input(GGML_TYPE_I64, n_tokens_);
    make_projections();
    ggml_tensor * q_cur = p.twist == "q_not_turned" ? q : rope_node(p.rope, c, normed(q, q_norm), positions, factors);
    ggml_tensor * k_cur = turned_k();
    ggml_tensor * v_cur = v;
    if (p.q_scale != 1.0f) {
        q_cur = ggml_scale(c, q_cur, p.q_scale);
    }
    if (p.k_rotation > 0) {
        k_rotation = input(GGML_TYPE_F32, p.k_rotation, p.k_rotation);
        q_cur = llama_mul_mat_hadamard(c, q_cur, k_rotation);
        k_cur = llama_mul_mat_hadamard(c, k_cur, k_rotation);
    }
    if (p.v_rotation > 0) {
        v_rotation = input(GGML_TYPE_F32, p.v_rotation, p.v_rotation);
        v_cur = llama_mul_mat_hadamard(c, v_cur, v_rotation);
    }
    for (ggml_tensor * tensor : {q_cur, v_cur, k_cur}) {
        ggml_build_forward_expand(graph, tensor);
    }
    ggml_build_forward_expand(graph, store(k_cells, k_cur, k_index));
    if (p.twist == "stored_twice") {
        ggml_build_forward_expand(graph, store(k_cells, k_cur, v_index));
    }
    ggml_build_forward_expand(graph, store(v_cells, v_cur, v_index));
    attention = attention_over(q_cur);
    ggml_set_output(attention);
    ggml_build_forward_expand(graph, attention);
}

ggml_tensor * RopeStoreLayer::input(ggml_type type, int64_t n0, int64_t n1, int64_t n2) {
    ggml_tensor * tensor = ggml_new_tensor_3d(nodes.get(), type, n0, n1, n2);
    ggml_set_input(tensor);
    return tensor;
}

void RopeStoreLayer::make_projections() {
    if (p.twist != "one_projection") {
        q = input(GGML_TYPE_F32, p.head_dim_k, p.n_head, n_tokens_);
        k = input(GGML_TYPE_F32, p.head_dim_k, p.n_head_kv, n_tokens_);
        v = input(GGML_TYPE_F32, p.head_dim_v, p.n_head_kv, n_tokens_);
        return;
    }
    const int64_t q_width = int64_t{p.head_dim_k} * p.n_head;
    const int64_t k_width = int64_t{p.head_dim_k} * p.n_head_kv;
    projection = input(GGML_TYPE_F32, q_width + k_width + int64_t{p.head_dim_v} * p.n_head_kv, n_tokens_);
    const auto part = [&](int64_t head_dim, int64_t n_head, int64_t first) {
        return ggml_view_3d(nodes.get(), projection, head_dim, n_head, n_tokens_, size_t(head_dim) * sizeof(float),
                            projection->nb[1], size_t(first) * sizeof(float));
    };
    q = part(p.head_dim_k, p.n_head, 0);
    k = part(p.head_dim_k, p.n_head_kv, q_width);
    v = part(p.head_dim_v, p.n_head_kv, q_width + k_width);
}

ggml_tensor * RopeStoreLayer::normed(ggml_tensor * x, ggml_tensor * weight) {
    if (weight == nullptr) {
        return x;
    }
    ggml_tensor * result = ggml_mul(nodes.get(), ggml_rms_norm(nodes.get(), x, p.norm_eps), weight);
    if (p.twist == "q_norm_read_twice" && weight == q_norm) {
        ggml_build_forward_expand(graph, ggml_scale(nodes.get(), result, 2.0f));
    }
    return result;
}

ggml_tensor * RopeStoreLayer::turned_k() {
    ggml_context * c = nodes.get();
    if (p.twist == "k_not_turned") {
        return k;
    }
    RopeProbe rope = p.rope;
    if (p.twist == "k_turns_differently") {
        rope.freq_base *= 2;
    }
    ggml_tensor * turned = rope_node(rope, c, normed(k, k_norm), positions, factors);
    if (p.twist == "k_read_twice") {
        ggml_build_forward_expand(graph, ggml_scale(c, turned, 2.0f));
    }
    return p.twist == "k_normed_behind" ? ggml_rms_norm(c, turned, 1e-6f) : turned;
}

ggml_tensor * RopeStoreLayer::store(ggml_tensor * cells, ggml_tensor * x, ggml_tensor * index) {
    ggml_tensor * rows = ggml_view_2d(nodes.get(), x, x->ne[0] * x->ne[1], n_tokens_, x->nb[2], 0);
    return ggml_set_rows(nodes.get(), cells, rows, index);
}

ggml_tensor * RopeStoreLayer::heads_of(ggml_tensor * cells, int64_t head_dim) {
    ggml_tensor * heads =
        ggml_view_4d(nodes.get(), cells, head_dim, p.n_head_kv, p.n_cells, 1, ggml_row_size(cells->type, head_dim),
                     cells->nb[1], cells->nb[1] * size_t(p.n_cells), 0);
    return ggml_permute(nodes.get(), heads, 0, 2, 1, 3);
}

ggml_tensor * RopeStoreLayer::attention_over(ggml_tensor * q_cur) {
    ggml_context * c = nodes.get();
    ggml_tensor * queries = ggml_view_4d(c, q_cur, q_cur->ne[0], q_cur->ne[1], q_cur->ne[2], 1, q_cur->nb[1],
                                         q_cur->nb[2], q_cur->nb[2] * size_t(q_cur->ne[2]), 0);
    queries = ggml_permute(c, queries, 0, 2, 1, 3);
    mask = input(GGML_TYPE_F16, p.n_cells, n_tokens_);
    return ggml_flash_attn_ext(c, queries, heads_of(k_cells, p.head_dim_k), heads_of(v_cells, p.head_dim_v), mask,
                               1.0f / std::sqrt(float(p.head_dim_k)), 0.0f, 0.0f);
}

}  // namespace orin
