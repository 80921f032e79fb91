// Steps over pages on a GPU that has all layers: queued there, padded with idle lanes, and awaited when they are
// collected.
#pragma once

#include <deque>
#include <string>

#include "../hooks/engine_hooks.h"
#include "device_sampling.h"
#include "paged_computer.h"
#include "stream_order.h"

namespace orin {

class GpuComputer : public PagedComputer {
   public:
    // Throws EngineError where there is no memory.
    GpuComputer(PagedKv & pages, const EngineParams & params, const Model & model);

    // For EngineHooks; null: the host draws tokens.
    SamplingSetup * sampling() { return sampling_ == nullptr ? nullptr : &sampling_->setup(); }
    bool make_contexts(Model & model, EngineHooks & hooks, const StopCheck & stop) override;
    // Throws EngineError where the GPU has no room for what an answer asks of sampling. Any thread.
    void check(const Sampler & sampler, int64_t n_logprobs) const;

    void start(const StepBatch & batch, const std::vector<OutputDraw> & draws) override;
    std::vector<DrawnOutput> & collect() override;
    int32_t max_steps_under_way() const override { return sampling_ == nullptr ? 1 : 2; }
    // Only where the host draws tokens.
    void compute(const StepBatch & batch) override;
    const float * logits(size_t output) const override;
    void trim() override;

   private:
    struct UnderWay {
        llama_context * context;
        size_t n_tokens;
        double upload_ms;
        double queued_ms;  // when llama.cpp was given it
    };

    void attempt(const StepBatch & batch, const std::vector<OutputDraw> * draws);
    void queue(const StepBatch & batch, const std::vector<OutputDraw> * draws);
    int32_t add_idle_lanes(llama_context * context);
    void compute_uploaded(llama_context * context);
    void synchronize();
    void ensure_contexts();
    void recover();

    ggml_backend_dev_t const gpu_;
    Model * model_ = nullptr;
    EngineHooks * hooks_ = nullptr;
    StopCheck stop_;
    StreamOrder order_;
    const std::unique_ptr<DeviceSampling> sampling_;
    UnderWay queued_{};
    std::deque<UnderWay> under_way_;
    std::vector<DrawnOutput> drawn_;
    double last_done_ms_ = 0.0;
};

}  // namespace orin
