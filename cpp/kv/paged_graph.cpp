#include "paged_graph.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "../hooks/graph_edit.h"
#include "gather_node.h"
#include "ggml-impl.h"
#include "kv_pool.h"
#include "llama-batch.h"
#include "llama-graph.h"
#include "paged_node.h"
#include "step_input.h"

namespace orin {
namespace {

bool is_kv_type(ggml_type type) {
    return type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 || type == GGML_TYPE_Q8_0 || type == GGML_TYPE_Q4_0;
}

// The index of the layer whose cells this node attends to, as the mask says. Some graphs attend to the keys of the step
// alone, or change the mask.
std::optional<size_t> layer_read_by(const ggml_tensor & node, const std::vector<PagedLayer> & layers) {
    const auto is_all_of = [](const ggml_tensor & view, const ggml_tensor * layer) {
        return view.view_src == layer && view.view_offs == 0;
    };
    const auto layer = std::find_if(layers.begin(), layers.end(), [&](const PagedLayer & candidate) {
        return is_all_of(*node.src[source_k], candidate.k) && is_all_of(*node.src[source_v], candidate.v);
    });
    const ggml_tensor * mask = node.src[source_mask];
    if (layer == layers.end() || mask == nullptr || mask->op != GGML_OP_NONE) {
        return std::nullopt;
    }
    return static_cast<size_t>(layer - layers.begin());
}

bool has_supported_sizes(const ggml_tensor & node) {
    const float max_bias = ggml_get_op_params_f32(&node, 1);
    const ggml_tensor & q = *node.src[source_q];
    const ggml_tensor & k = *node.src[source_k];
    const ggml_tensor & v = *node.src[source_v];
    const auto has_sizes = [](const ggml_tensor & t) {
        return is_kv_type(t.type) && t.ne[0] % ggml_blck_size(t.type) == 0;
    };
    return max_bias == 0.0f && q.type == GGML_TYPE_F32 && q.ne[3] == 1 && has_sizes(k) && has_sizes(v) &&
           k.ne[0] % 16 == 0 && v.ne[0] % 16 == 0 && q.ne[2] % k.ne[2] == 0;
}

StepInput & add_input(llm_graph_result & result, const PagedAttentionSetup & setup, int64_t n_tokens, bool is_prefill,
                      int64_t n_gathered) {
    auto made = std::make_unique<StepInput>(result.get_ctx(), setup, n_tokens, is_prefill, n_gathered);
    auto & input = static_cast<StepInput &>(*result.add_input(std::move(made)));
    ggml_build_forward_expand(result.get_gf(), input.tokens);
    ggml_build_forward_expand(result.get_gf(), input.block_tables);
    return input;
}

}  // namespace

int32_t use_paged_attention(llm_graph_result & result, PagedAttentionSetup & setup,
                            const std::vector<PagedLayer> & layers, bool is_prefill, const llama_ubatch * step) {
    ggml_cgraph & graph = *result.get_gf();
    StepInput * input = nullptr;
    int32_t n_gathering = 0;
#ifdef ORIN_CUDA
    std::optional<Gathering> gathering;
#endif
    std::vector<int32_t> n_readers(layers.size());
    for (int i = 0; i < graph.n_nodes; i++) {
        ggml_tensor & node = *graph.nodes[i];
        if (node.op != GGML_OP_FLASH_ATTN_EXT) {
            continue;
        }
        const std::optional<size_t> layer = layer_read_by(node, layers);
        if (!layer || !has_supported_sizes(node)) {
            throw std::runtime_error(std::string("paged attention does not compute ") + node.name);
        }
        if (input == nullptr) {
            const int64_t n_tokens = node.src[source_q]->ne[1];
            const int64_t n_gathered = !is_prefill || n_tokens < setup.gather_tokens ? 0
                                       : step == nullptr                             ? setup.max_gathered
                                                                                     : gathered_positions(setup, *step);
            input = &add_input(result, setup, n_tokens, is_prefill, n_gathered);
#ifdef ORIN_CUDA
            if (n_gathered > 0) {
                gathering.emplace(result.get_ctx(), graph, setup, *input, n_gathered);
            }
#endif
        }
        n_readers[*layer]++;
#ifdef ORIN_CUDA
        if (gathering && gathering->serve(&node, layers[*layer].window)) {
            i = node_index(graph, &node);
            n_gathering++;
            continue;
        }
#endif
        ggml_tensor * const mask = node.src[source_mask];
        const PagedNodeParams params = {{paged_attention_compute, GGML_N_TASKS_MAX, &setup},
                                        ggml_get_op_params_f32(&node, 0),
                                        ggml_get_op_params_f32(&node, 2),
                                        layers[*layer].window,
                                        0};
        ggml_set_op_params(&node, &params, sizeof params);
        node.op = GGML_OP_CUSTOM;
        set_source(graph, &node, source_tokens, input->tokens);
        set_source(graph, &node, source_block_tables, input->block_tables);
        if (n_uses(graph, mask) == 0) {
            remove_leaf(graph, mask);
        }
#ifdef ORIN_CUDA
        if (setup.device && !paged_attention_is_supported(&node)) {
            throw std::runtime_error(std::string("the GPU's paged attention does not compute ") + node.name);
        }
#endif
    }
    for (size_t i = 0; i < layers.size(); i++) {
        if (n_readers[i] != layers[i].n_readers) {
            throw std::runtime_error(std::string("paged attention reads ") + layers[i].k->name + " in " +
                                     std::to_string(n_readers[i]) + " places instead of " +
                                     std::to_string(layers[i].n_readers));
        }
    }
#ifdef ORIN_CUDA
    if (gathering && n_gathering == 0) {
        setup.max_gathered = 0;  // the GPU's flash attention does not have these heads: not tried again
    }
#endif
    return n_gathering;
}

}  // namespace orin
