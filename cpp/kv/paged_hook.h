// Paging for one engine: gives its contexts a KV cache over the pool, and their graphs paged attention.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "paged_graph.h"

struct llama_cparams;
struct llama_memory_context_i;
struct llama_memory_i;
struct llama_memory_params;
struct llama_model;

namespace orin {

class PagedCache;

struct PagedHookConfig {
    int32_t max_sequences = 1;
    int32_t max_tokens = 0;       // of a sequence
    int32_t max_step_tokens = 1;  // of all contexts
    int32_t n_threads = 1;
    // On a GPU: tokens of this sequence stand for nobody. They may be at any position, and have no page. -1: none
    int32_t idle_sequence = -1;
    // Off: a GPU's memory for K and V is one allocation, made at the start.
    bool growth = true;
    // Off: a GPU's steps with prompt tokens read pages, too, and not what is gathered from them for stock attention.
    bool gather = true;
    // Off: stock attention reads the pool through cells that mirror it. The oracle of the tests.
    bool attention = true;
};

// The sliding window of a model that has it in all layers, so that nothing behind it is ever read again; else 0.
int32_t window_of_all_layers(const llama_model & model);

// The layers of a step's memory that is ours; none of another's.
std::vector<PagedLayer> paged_layers(const llama_memory_context_i * memory);

// Must outlive the contexts that it served.
class PagedHook {
   public:
    PagedHook(KvPool & pool, const PagedHookConfig & config) : pool_(pool), config_(config) {}

    // A KV cache for a context whose model has plain attention in all layers, or with a sliding window in some; see
    // orin_create_memory. Throws std::runtime_error saying why this model cannot be paged.
    llama_memory_i * create_memory(const llama_model & model, const llama_memory_params & params,
                                   const llama_cparams & cparams, const std::function<bool(int32_t)> & filter,
                                   const std::function<int32_t(int32_t)> & reuse);
    // Throws std::runtime_error where a graph over our cache has attention that pages cannot serve.
    void graph_built(llm_graph_result & result, const llama_memory_context_i * memory);
    // Least tokens of a step with prompt tokens whose attention reads what is gathered; 0: none. For contexts that are
    // made from now on; 1 until it is called.
    void set_gather_tokens(int32_t n_tokens) { gather_tokens_ = n_tokens; }
    // Why this model's memory is not paged, or "".
    const std::string & refusal() const { return refusal_; }
    // Whether prompts' attention reads what is gathered from pages.
    bool gathers() const { return gathers_; }

   private:
    void make_setup(const llama_model & model, const llama_memory_params & params);
    void share_storage(std::initializer_list<PagedCache *> caches);

    KvPool & pool_;
    const PagedHookConfig config_;
    bool gathers_ = false;
    int32_t gather_tokens_ = 1;
    ggml_backend_dev_t device_ = nullptr;                         // of all layers
    std::unique_ptr<PagedAttentionSetup> setup_;                  // made with the first cache
    std::string refusal_ = "its memory is not a plain KV cache";  // until a cache is made
};

}  // namespace orin
