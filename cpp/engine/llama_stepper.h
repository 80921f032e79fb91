// A model that computes what a scheduler plans, step by step, on the caller's thread.
#pragma once

#include <memory>
#include <string>

#include "../hooks/engine_hooks.h"
#include "../kv/kv_pool.h"
#include "context.h"
#include "logits_computer.h"
#include "stepper.h"

namespace orin {

class LlamaStepper : public Stepper {
   public:
    // Throws LoadError for a model that does not write text token by token, EngineError.
    LlamaStepper(std::shared_ptr<Model> model, const EngineParams & params, const StopCheck & stop);

    Scheduler & scheduler() override { return *scheduler_; }
    LogitsComputer & computer() override { return *computer_; }
    int32_t n_vocab() const override { return model_->n_vocab(); }
    std::vector<int32_t> end_tokens() const override { return model_->eog_tokens(); }
    const EngineParams & params() const { return params_; }
    RopeCounters rope_counters() const { return hooks_->rope_counters(); }
    bool is_paged() { return paged_ != nullptr; }
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

    std::shared_ptr<Model> model_;
    const EngineParams params_;
    std::string refusal_;
    std::unique_ptr<Scheduler> scheduler_;
    std::unique_ptr<EngineHooks> hooks_;
    KvPool * paged_ = nullptr;
    std::unique_ptr<LogitsComputer> computer_;  // last: its contexts refer to the members above
};

}  // namespace orin
