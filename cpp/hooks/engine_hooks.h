// The hooks of one engine: chosen when it is made, found by its graphs through the context parameters
// (cb_eval null, cb_eval_user_data = this), never through a global.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "../matrix/choices.h"
#include "../matrix/matrix_hook.h"
#include "../rope/rope_counters.h"
#include "../rope/rope_table.h"
#include "rope_store_hook.h"
#include "upload.h"

struct ggml_cgraph;
class llm_graph_result;

namespace orin {

class PagedHook;
struct SamplingSetup;

struct HookConfig {
    bool rope = true;   // RoPE reads tables; on a GPU it stores K and V into pages, too
    int32_t n_ctx = 0;  // tokens per sequence: RoPE tables cover positions below it
    // On a GPU:
    ggml_backend_dev_t uploads_to = nullptr;  // inputs go there through pinned memory
    bool lane_slots = false;                  // a graph slot for each power of two of outputs
    SamplingSetup * sampling = nullptr;       // tokens are drawn there
    std::optional<MatrixChoices> matrices{};  // products of weights are computed as these say
    ggml_backend_dev_t matrices_on = nullptr;
};

// Must outlive every context it was given to: the nodes of their graphs hold addresses of its tables.
class EngineHooks {
   public:
    explicit EngineHooks(HookConfig config, PagedHook * paged = nullptr);

    EngineHooks(const EngineHooks &) = delete;
    EngineHooks & operator=(const EngineHooks &) = delete;

    // What draws tokens in graphs, or null.
    SamplingSetup * sampling() const { return config_.sampling; }

    // Marks the nodes of a new model graph that our code serves. Several contexts may call at once.
    void graph_built(ggml_cgraph * graph);

    // The same for the layers of our KV cache on a GPU, before other hooks change the graph.
    void rope_store_graph_built(ggml_context * context, ggml_cgraph & graph, const std::vector<PagedLayer> & layers);

    // Products of weights, after hooks that look for what upstream builds. Several contexts may call at once.
    void matrix_graph_built(llm_graph_result & result);

    // Pages of the KV cache, or null.
    PagedHook * paged() const { return paged_; }
    // What takes the inputs of graphs, or null.
    UploadRing * uploads() const { return uploads_.get(); }
    // See orin_graph_slot.
    int graph_slot(uint32_t n_outputs) const;

    // Those of tables on a GPU are all out of bounds.
    RopeCounters rope_counters() const;
    size_t n_rope_tables() const;
    size_t rope_table_bytes() const;
    const RopeStoreHook & rope_store() const { return rope_store_; }
    MatrixReport matrix_report() const;

   private:
    RopeTable & table_for(const RopeParams & params);

    const HookConfig config_;
    PagedHook * const paged_;
    const std::unique_ptr<UploadRing> uploads_;
    RopeStoreHook rope_store_;
    const std::unique_ptr<MatrixHook> matrices_;
    std::atomic<int32_t> n_cublas_products_{0};
    RopeTally rope_tally_;
    mutable std::mutex tables_lock_;
    std::vector<std::unique_ptr<RopeTable>> rope_tables_;
};

}  // namespace orin
