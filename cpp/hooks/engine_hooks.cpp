#include "engine_hooks.h"

#include <new>

#include "../kv/paged_hook.h"
#include "../matrix/cublas_marks.h"
#include "ggml.h"
#include "include/orin_hooks.h"
#include "llama-graph.h"
#include "rope_node.h"
#include "sampling_node.h"

namespace orin {

EngineHooks::EngineHooks(HookConfig config, PagedHook * paged)
    : config_(config),
      paged_(paged),
      uploads_(config.uploads_to == nullptr ? nullptr : std::make_unique<UploadRing>(config.uploads_to)),
      rope_store_(config.n_ctx),
      matrices_(config.matrices ? std::make_unique<MatrixHook>(config.matrices_on, *config.matrices) : nullptr) {}

int EngineHooks::graph_slot(uint32_t n_outputs) const {
    if (!config_.lane_slots || n_outputs == 0) {
        return n_outputs > 0;
    }
    int slot = 1;
    while (slot + 1 < ORIN_GRAPH_SLOTS && n_outputs > 1u << (slot - 1)) {
        slot++;
    }
    return slot;
}

void EngineHooks::graph_built(ggml_cgraph * graph) {
    if (!config_.rope) {
        return;
    }
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        ggml_tensor * node = ggml_graph_node(graph, i);
        if (const auto params = rope_params(*node)) {
            stamp_rope_table(*node, table_for(*params));
        }
    }
}

void EngineHooks::rope_store_graph_built(ggml_context * context, ggml_cgraph & graph,
                                         const std::vector<PagedLayer> & layers) {
    if (config_.rope) {
        rope_store_.graph_built(context, graph, layers);
    }
}

void EngineHooks::matrix_graph_built(llm_graph_result & result) {
    if (matrices_ == nullptr) {
        return;
    }
    matrices_->graph_built(result);
    const int32_t n_products = mark_cublas(*result.get_gf(), config_.matrices->cublas_tokens);
    int32_t most = n_cublas_products_;
    while (most < n_products && !n_cublas_products_.compare_exchange_weak(most, n_products)) {
    }
}

MatrixReport EngineHooks::matrix_report() const {
    MatrixReport report = matrices_ == nullptr ? MatrixReport{} : matrices_->report();
    report.n_cublas = n_cublas_products_;
    return report;
}

RopeTable & EngineHooks::table_for(const RopeParams & params) {
    const std::lock_guard<std::mutex> lock(tables_lock_);
    for (const auto & table : rope_tables_) {
        if (table->params() == params) {
            return *table;
        }
    }
    return *rope_tables_.emplace_back(std::make_unique<RopeTable>(params, config_.n_ctx, rope_tally_));
}

RopeCounters EngineHooks::rope_counters() const {
    RopeCounters counters = rope_tally_.total();
    counters.out_of_bounds += rope_store_.n_outside();
    return counters;
}

size_t EngineHooks::n_rope_tables() const {
    const std::lock_guard<std::mutex> lock(tables_lock_);
    return rope_tables_.size();
}

size_t EngineHooks::rope_table_bytes() const {
    const std::lock_guard<std::mutex> lock(tables_lock_);
    size_t bytes = 0;
    for (const auto & table : rope_tables_) {
        bytes += table->bytes();
    }
    return bytes;
}

}  // namespace orin

llama_memory_i * orin_create_memory(void * hooks, const llama_model & model, const llama_memory_params & params,
                                    const llama_cparams & cparams, const std::function<bool(int32_t)> & filter,
                                    const std::function<int32_t(int32_t)> & reuse) {
    orin::PagedHook * paged = hooks == nullptr ? nullptr : static_cast<orin::EngineHooks *>(hooks)->paged();
    return paged == nullptr ? nullptr : paged->create_memory(model, params, cparams, filter, reuse);
}

void orin_graph_built(void * hooks, llm_graph_result & result, const llama_memory_context_i * memory) {
    if (hooks == nullptr) {
        return;
    }
    auto & engine = *static_cast<orin::EngineHooks *>(hooks);
    if (engine.paged() != nullptr) {
        engine.rope_store_graph_built(result.get_ctx(), *result.get_gf(), orin::paged_layers(memory));
        engine.paged()->graph_built(result, memory);
    }
    try {
        engine.graph_built(result.get_gf());
    } catch (const std::bad_alloc &) {
        // nodes without a table take the stock path
    }
    engine.matrix_graph_built(result);
    if (engine.sampling() != nullptr) {
        orin::use_device_sampling(result, *engine.sampling());
    }
}

int orin_graph_slot(void * hooks, uint32_t n_outputs) {
    return hooks == nullptr ? n_outputs > 0 : static_cast<orin::EngineHooks *>(hooks)->graph_slot(n_outputs);
}

bool orin_upload_input(void * hooks, ggml_backend_t backend, const ggml_tensor * input, ggml_tensor * copy) {
    orin::UploadRing * uploads = hooks == nullptr ? nullptr : static_cast<orin::EngineHooks *>(hooks)->uploads();
    return uploads != nullptr && uploads->copy(backend, *input, *copy);
}

bool orin_rope_fill_from_table(void * table, const int32_t * positions, int64_t token, int64_t n_tokens, float * row) {
    return static_cast<orin::RopeTable *>(table)->fill(positions, token, n_tokens, row);
}
