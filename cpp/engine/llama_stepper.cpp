#include "llama_stepper.h"

#include <algorithm>
#include <random>

#include "paged_computer.h"
#include "runtime.h"
#include "stock_computer.h"

namespace orin {
namespace {

// In pages, a step has up to max_batch tokens beside those of prompts, and llama.cpp takes no more than its context is
// long.
EngineParams limited(EngineParams params) {
    const int32_t n_others = params.paging == Paging::off ? 0 : params.max_batch;
    params.chunk_size = std::min({params.chunk_size, params.n_ctx, padded_context(params.n_ctx) - n_others});
    return params;
}

std::unique_ptr<Scheduler> make_scheduler(const EngineParams & params, int32_t max_batch, int32_t n_pages,
                                          int32_t window, bool prefix_cache) {
    PlannerConfig planner;
    planner.chunk_size = params.chunk_size;
    planner.max_batch = max_batch;
    PagedKvConfig pages;
    pages.n_pages = n_pages + 1;  // and the scratch page
    pages.page_size = params.page_size;
    pages.max_sequences = max_batch + 1;  // and the one through which cached rows are written
    pages.max_tokens = params.n_ctx;
    pages.window = window;
    pages.prefix_cache = prefix_cache;
    std::random_device random;
    pages.hash_seed = uint64_t{random()} << 32 | random();
    return std::make_unique<Scheduler>(planner, pages);
}

}  // namespace

LlamaStepper::LlamaStepper(std::shared_ptr<Model> model, const EngineParams & params, const StopCheck & stop)
    : model_(std::move(model)), params_(limited(params)) {
    if (!model_->is_causal_decoder()) {
        throw LoadError(
            "this model does not write text token by token (it is an encoder, encoder-decoder or diffusion model): "
            "choose a causal language model");
    }
    if (params_.paging == Paging::off || !use_pages(stop)) {
        use_stock(stop);
    }
}

bool LlamaStepper::use_pages(const StopCheck & stop) {
    if (!model_->on_cpu()) {
        refusal_ = "its layers are computed on a GPU";
        return false;
    }
    scheduler_ = make_scheduler(params_, params_.max_batch, params_.kv_pages, window_of_all_layers(*model_->handle()),
                                params_.prefix_cache);
    auto computer = std::make_unique<PagedComputer>(scheduler_->kv(), params_, model_->n_vocab());
    hooks_ = std::make_unique<EngineHooks>(HookConfig{params_.rope, params_.n_ctx}, &computer->hook());
    if (!computer->make_contexts(*model_, *hooks_, stop)) {
        refusal_ = computer->hook().refusal();
        return false;
    }
    paged_ = &computer->pool();
    computer_ = std::move(computer);
    return true;
}

KvPool & LlamaStepper::kv_pool() {
    if (paged_ == nullptr) {
        throw EngineError("the KV cache is not paged" + (refusal_.empty() ? " (--hooks)" : ": " + refusal_));
    }
    return *paged_;
}

bool LlamaStepper::set_kv_budget(int32_t n_pages) {
    KvPool & pool = kv_pool();
    if (!scheduler_->set_budget(n_pages)) {
        return false;
    }
    if (pool.pages().committed_pages() > n_pages + 1) {
        pool.pages().drop_cached();  // what is cached up there keeps memory
    }
    pool.trim();
    return true;
}

// The pages of its scheduler are those of one sequence, and stand for no memory.
void LlamaStepper::use_stock(const StopCheck & stop) {
    const int32_t n_pages = (params_.n_ctx - 1) / params_.page_size + 1;
    scheduler_ = make_scheduler(params_, 1, n_pages, 0, false);
    hooks_ = std::make_unique<EngineHooks>(HookConfig{params_.rope, params_.n_ctx});
    computer_ = std::make_unique<StockComputer>(*scheduler_, *model_, params_, *hooks_, stop);
}

}  // namespace orin
