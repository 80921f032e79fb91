#include "paged_graph.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "../hooks/graph_edit.h"
#include "ggml-impl.h"
#include "kv_pool.h"
#include "llama-batch.h"
#include "llama-graph.h"
#include "paged_node.h"

namespace orin {
namespace {

bool is_kv_type(ggml_type type) {
    return type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 || type == GGML_TYPE_Q8_0 || type == GGML_TYPE_Q4_0;
}

// Which sequence and position each token of a step has, and the pages of these sequences.
class StepInput : public llm_graph_input_i {
   public:
    StepInput(ggml_context * context, const PagedAttentionSetup & setup, int64_t n_tokens)
        : tokens(ggml_new_tensor_2d(context, GGML_TYPE_I32, n_tokens, 2)),
          block_tables(ggml_new_tensor_2d(context, GGML_TYPE_I32, setup.max_pages,
                                          std::min<int64_t>(n_tokens, setup.max_sequences))),
          setup_(setup),
          row_of_(LLAMA_MAX_SEQ) {
        ggml_set_input(tokens);
        ggml_set_input(block_tables);
        ggml_set_name(tokens, "paged_tokens");
        ggml_set_name(block_tables, "paged_block_tables");
    }

    void set_input(const llama_ubatch * ubatch) override {
        set_block_tables(*ubatch);
        auto * rows = static_cast<int32_t *>(tokens->data);
        auto * positions = rows + ubatch->n_tokens;
        for (uint32_t i = 0; i < ubatch->n_tokens; i++) {
            const llama_seq_id sequence = ubatch->seq_id[i][0];
            const bool is_idle = sequence == setup_.idle_sequence;
            rows[i] = is_idle ? 0 : row_of_[static_cast<size_t>(sequence)];
            positions[i] = is_idle ? -1 : ubatch->pos[i];
        }
    }

    bool can_reuse(const llm_graph_params & params) override { return tokens->ne[0] == params.ubatch.n_tokens; }

    ggml_tensor * const tokens;        // [2, n_tokens]: rows of the block tables, then positions
    ggml_tensor * const block_tables;  // [sequences there can be, max_pages]

   private:
    void set_block_tables(const llama_ubatch & ubatch) {
        auto * next = static_cast<int32_t *>(block_tables->data);
        int32_t row = 0;
        for (uint32_t s = 0; s < ubatch.n_seqs_unq; s++) {
            const llama_seq_id sequence = ubatch.seq_id_unq[s];
            if (sequence != setup_.idle_sequence) {
                const std::vector<PageId> & pages = setup_.pool->pages().block_table(sequence);
                std::copy(pages.begin(), pages.end(), next);
                next += block_tables->ne[0];
                row_of_[static_cast<size_t>(sequence)] = row++;
            }
        }
    }

    const PagedAttentionSetup & setup_;
    std::vector<int32_t> row_of_;  // of the block tables, by sequence
};

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

}  // namespace

void use_paged_attention(llm_graph_result & result, PagedAttentionSetup & setup,
                         const std::vector<PagedLayer> & layers) {
    ggml_cgraph & graph = *result.get_gf();
    StepInput * input = nullptr;
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
            input = static_cast<StepInput *>(
                result.add_input(std::make_unique<StepInput>(result.get_ctx(), setup, node.src[source_q]->ne[1])));
            ggml_build_forward_expand(&graph, input->tokens);
            ggml_build_forward_expand(&graph, input->block_tables);
        }
        ggml_tensor * const mask = node.src[source_mask];
        const PagedNodeParams params = {{paged_attention_compute, GGML_N_TASKS_MAX, &setup},
                                        ggml_get_op_params_f32(&node, 0),
                                        ggml_get_op_params_f32(&node, 2),
                                        layers[*layer].window};
        ggml_set_op_params(&node, &params, sizeof params);
        node.op = GGML_OP_CUSTOM;
        set_source(graph, &node, source_tokens, input->tokens);
        set_source(graph, &node, source_block_tables, input->block_tables);
        if (n_uses(graph, mask) == 0) {
            remove_leaf(graph, mask);
        }
        n_readers[*layer]++;
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
}

}  // namespace orin
