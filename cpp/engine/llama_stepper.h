// A model that computes what a scheduler plans, step by step, on the caller's thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "../hooks/engine_hooks.h"
#include "../kv/kv_pool.h"
#include "context.h"
#include "logits_computer.h"
#include "stepper.h"

namespace orin {

class GpuComputer;
class PagedComputer;

class LlamaStepper : public Stepper {
   public:
    // Throws LoadError for a model that does not write text token by token, EngineError.
    LlamaStepper(std::shared_ptr<Model> model, const EngineParams & params, const StopCheck & stop);
    ~LlamaStepper() override;

    Scheduler & scheduler() override { return *scheduler_; }
    LogitsComputer & computer() override { return *computer_; }
    int32_t n_vocab() const override { return model_->n_vocab(); }
    std::vector<int32_t> end_tokens() const override { return model_->eog_tokens(); }
    const EngineParams & params() const { return params_; }
    RopeCounters rope_counters() const { return hooks_->rope_counters(); }
    RopeStoreReport rope_store_report() const { return hooks_->rope_store().report(); }
    MatrixReport matrix_report() const { return hooks_->matrix_report(); }
    // What kernels are chosen and cut by, as MatrixChoices names it; none where no GPU computes in pages.
    std::map<std::string, int32_t> kernels() const;
    // All 0 where inputs are not uploaded.
    UploadCounters upload_counters() const;
    // Those of our hooks that serve this model on this device, by the names of EngineConfig.
    const std::set<std::string> & hooks_in_use() const { return hooks_in_use_; }
    // Throws EngineError where sampling has no room for what an answer asks. Any thread.
    void check(const Sampler & sampler, int64_t n_logprobs) const;
    bool is_paged() const { return paged_ != nullptr; }
    // How the KV cache gets memory, and where it does not grow, why; "" where nothing is paged.
    std::string kv_memory() const;
    // Throws EngineError where nothing is paged.
    KvPool & kv_pool();
    // Pages that may be in use or cached; memory beyond them is given back. False, and nothing changed, where running
    // requests need more.
    bool set_kv_budget(int32_t n_pages);
    // Why the memory is not paged although that was asked for, or "".
    const std::string & refusal() const { return refusal_; }

   private:
    bool use_pages(const StopCheck & stop);
    void use_stock(const StopCheck & stop);
    void note_hooks();

    std::shared_ptr<Model> model_;
    const EngineParams params_;
    std::string refusal_;
    std::set<std::string> hooks_in_use_;
    std::optional<MatrixChoices> choices_;
    std::unique_ptr<Scheduler> scheduler_;
    std::unique_ptr<EngineHooks> hooks_;
    PagedComputer * paged_ = nullptr;
    GpuComputer * on_gpu_ = nullptr;
    std::unique_ptr<LogitsComputer> computer_;  // last: its contexts refer to the members above
};

}  // namespace orin
