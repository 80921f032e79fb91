#include "llama_stepper.h"

#include <algorithm>
#include <random>

#include "../matrix/device_choices.h"
#include "gpu.h"
#include "gpu_computer.h"
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

std::unique_ptr<GpuComputer> make_gpu_computer(PagedKv & pages, const EngineParams & params, const Model & model) {
    std::unique_ptr<GpuComputer> computer;
    const auto what = [] { return "an engine could not be made on the GPU"; };
    on_gpu(model.gpu(), what, [&] { computer = std::make_unique<GpuComputer>(pages, params, model); });
    return computer;
}

std::unique_ptr<EngineHooks> make_hooks(ggml_backend_dev_t gpu, const HookConfig & config, PagedHook & paged) {
    std::unique_ptr<EngineHooks> hooks;
    const auto what = [] { return "an engine could not be made on the GPU"; };
    on_gpu(gpu, what, [&] { hooks = std::make_unique<EngineHooks>(config, &paged); });
    return hooks;
}

MatrixChoices make_choices(ggml_backend_dev_t gpu, const EngineParams & params) {
    MatrixChoices choices;
    const auto what = [] { return "an engine could not be made on the GPU"; };
    on_gpu(gpu, what, [&] { choices = with_choices(choices_for(gpu), params.kernels); });
    return choices;
}

}  // namespace

LlamaStepper::LlamaStepper(std::shared_ptr<Model> model, const EngineParams & params, const StopCheck & stop)
    : model_(std::move(model)), params_(limited(params)) {
    if (!model_->is_decoder()) {
        throw LoadError(
            "this model does not write text token by token (it is an encoder, encoder-decoder or diffusion model): "
            "choose a causal language model");
    }
    if (params_.paging == Paging::off || !use_pages(stop)) {
        use_stock(stop);
    }
    note_hooks();
}

// A GPU that does not answer any more takes nothing back, and to ask it would end the process.
LlamaStepper::~LlamaStepper() {
    if (model_->gpu() != nullptr && !gpu_memory(model_->gpu())) {
        (void)computer_.release();
        (void)hooks_.release();
        (void)new std::shared_ptr<Model>(model_);
    }
}

bool LlamaStepper::use_pages(const StopCheck & stop) {
    ggml_backend_dev_t gpu = model_->gpu();
    if (gpu != nullptr && !model_->has_all_layers_on_gpu()) {
        refusal_ = "its layers are not all on one GPU (-ngl, CUDA_VISIBLE_DEVICES)";
        return false;
    }
    scheduler_ = make_scheduler(params_, params_.max_batch, params_.kv_pages, window_of_all_layers(*model_->handle()),
                                params_.prefix_cache);
    std::unique_ptr<PagedComputer> computer;
    std::unique_ptr<GpuComputer> on_gpu;
    HookConfig hooks{params_.rope, params_.n_ctx};
    if (gpu == nullptr) {
        computer = std::make_unique<PagedComputer>(scheduler_->kv(), params_, model_->n_vocab());
    } else {
        on_gpu = make_gpu_computer(scheduler_->kv(), params_, *model_);
        hooks.uploads_to = params_.uploads ? gpu : nullptr;
        hooks.lane_slots = params_.lanes;
        hooks.sampling = on_gpu->sampling();
        choices_ = make_choices(gpu, params_);
        on_gpu->hook().set_gather_tokens(choices_->gather_tokens);
        if (params_.matrices) {
            hooks.matrices = choices_;
            hooks.matrices_on = gpu;
        }
    }
    PagedComputer & paged = gpu == nullptr ? *computer : *on_gpu;
    hooks_ = make_hooks(gpu, hooks, paged.hook());
    if (!paged.make_contexts(*model_, *hooks_, stop)) {
        refusal_ = paged.hook().refusal();
        choices_.reset();
        return false;
    }
    paged_ = &paged;
    on_gpu_ = on_gpu.get();
    computer_ = gpu == nullptr ? std::move(computer) : std::move(on_gpu);
    return true;
}

void LlamaStepper::note_hooks() {
    const auto note = [&](const char * name, bool is_in_use) {
        if (is_in_use) {
            hooks_in_use_.insert(name);
        }
    };
    const bool turns_on_cpu = params_.rope && model_->device() == "cpu";
    note("rope", turns_on_cpu || hooks_->rope_store().report().n_layers > 0);
    note("pages", is_paged());
    note("attention", is_paged() && params_.paging == Paging::on);
    note("gather", is_paged() && paged_->hook().gathers());
    note("growth", is_paged() && paged_->pool().storage()->growth().grows);
    note("uploads", hooks_->uploads() != nullptr);
    note("lanes", on_gpu_ != nullptr && params_.lanes);
    note("matrices", hooks_->matrix_report().is_in_use);
    note("sampling", hooks_->sampling() != nullptr);
}

std::map<std::string, int32_t> LlamaStepper::kernels() const {
    return choices_ ? to_map(*choices_) : std::map<std::string, int32_t>();
}

std::string LlamaStepper::kv_memory() const {
    return is_paged() ? paged_->pool().storage()->growth().how : "";
}

UploadCounters LlamaStepper::upload_counters() const {
    return hooks_->uploads() == nullptr ? UploadCounters{} : hooks_->uploads()->counters();
}

void LlamaStepper::check(const Sampler & sampler, int64_t n_logprobs) const {
    if (on_gpu_ != nullptr) {
        on_gpu_->check(sampler, n_logprobs);
    }
}

KvPool & LlamaStepper::kv_pool() {
    if (paged_ == nullptr) {
        throw EngineError("the KV cache is not paged" + (refusal_.empty() ? " (--hooks)" : ": " + refusal_));
    }
    return paged_->pool();
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
