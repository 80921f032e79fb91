// One sequence on a model: its KV cache, the tokens that are in it, and the steps that extend it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../hooks/engine_hooks.h"
#include "../sampling/logprobs.h"
#include "llama.h"
#include "model.h"
#include "sampler.h"

namespace orin {

struct SessionParams {
    int32_t n_ctx = 0;  // tokens, at least 1
    int32_t chunk_size = 512;
    int32_t threads = 1;
    std::string kv_type = "f16";
    HookConfig hooks;
};

class Session {
   public:
    // Called now and then during a step, on the stepping thread; true stops the step with Interrupted.
    using InterruptCheck = std::function<bool()>;

    Session(std::shared_ptr<Model> model, const SessionParams & params, InterruptCheck interrupted);

    // Tokens the sequence may hold: what was asked for (llama.cpp rounds its own buffers up).
    int32_t n_ctx() const { return n_ctx_; }
    // The tokens whose keys and values are in the cache, in order.
    const std::vector<int32_t> & tokens() const { return tokens_; }

    // Makes the cache hold exactly `prompt`: keeps the longest common prefix, computes the rest chunk by chunk.
    // Returns how many tokens were kept; at least the last one is always computed, for its logits.
    int32_t prefill(const std::vector<int32_t> & prompt);
    // Appends one token.
    void decode(int32_t token);
    // Forgets everything after the first n_keep tokens.
    void truncate(int32_t n_keep);

    // The logits after the last token computed: [n_vocab], valid until the next step.
    const float * logits() const;
    // Draws the token after the last one computed, and shows it to the sampler.
    int32_t sample(Sampler & sampler);
    std::vector<sampling::TokenLogprob> top_logprobs(int32_t n, int32_t chosen);

    RopeCounters rope_counters() const { return hooks_.rope_counters(); }
    const Model & model() const { return *model_; }

   private:
    void compute(const int32_t * tokens, int32_t count, bool want_logits);
    void fit_cache_to(int32_t n_keep);
    bool should_stop();

    struct Free {
        void operator()(llama_context * context) const { llama_free(context); }
    };
    std::shared_ptr<Model> model_;
    EngineHooks hooks_;
    InterruptCheck interrupted_;
    int64_t last_check_us_ = 0;
    int32_t n_ctx_;
    int32_t chunk_size_;
    std::vector<int32_t> tokens_;
    bool has_logits_ = false;
    sampling::Workspace workspace_;
    std::unique_ptr<llama_context, Free> context_;  // last: it refers to the members above
};

}  // namespace orin
