// One sequence on a model: its KV cache, the tokens that are in it, and the steps that extend it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../hooks/engine_hooks.h"
#include "../sampling/logprobs.h"
#include "kv_space.h"
#include "model.h"
#include "sampler.h"

namespace orin {

enum class Paging {
    off,
    cells_only,  // pages, but stock attention: the oracle of the tests
    on,
};

struct SessionParams {
    int32_t n_ctx = 0;  // tokens, at least 1
    int32_t chunk_size = 512;
    int32_t threads = 1;
    std::string kv_type = "f16";
    bool rope = true;
    Paging paging = Paging::on;
    int32_t page_size = 16;
    bool prefix_cache = true;
};

class Session {
   public:
    // Called now and then during a step, on the stepping thread; true stops the step with Interrupted.
    using InterruptCheck = std::function<bool()>;

    Session(std::shared_ptr<Model> model, const SessionParams & params, InterruptCheck interrupted);

    // Tokens the sequence may hold: what was asked for (llama.cpp rounds its own buffers up).
    int32_t n_ctx() const { return n_ctx_; }
    // The tokens whose keys and values are in the cache, in order.
    const std::vector<int32_t> & tokens() const { return space_->tokens(); }

    // Makes the cache hold exactly `prompt`: keeps the longest common prefix, computes the rest chunk by chunk.
    // Returns how many tokens were kept; at least the last one is always computed, for its logits.
    int32_t prefill(const std::vector<int32_t> & prompt);
    // Appends one token.
    void decode(int32_t token);
    // The next prompt is computed from its first token on.
    void forget();

    // The logits after the last token computed: [n_vocab], valid until the next step.
    const float * logits() const;
    // Draws the token after the last one computed, and shows it to the sampler.
    int32_t sample(Sampler & sampler);
    std::vector<sampling::TokenLogprob> top_logprobs(int32_t n, int32_t chosen);

    RopeCounters rope_counters() const { return hooks_->rope_counters(); }
    // Null where this model's memory is not paged, or paging is off.
    const KvPool * kv_pool() const { return space_->pool(); }
    // Graphs that had to be built since the start, all contexts together.
    int64_t n_graphs_built() const { return n_graphs_built_; }
    const Model & model() const { return *model_; }

   private:
    std::unique_ptr<KvSpace> make_space(const SessionParams & params);
    ContextPtr make_context(const SessionParams & params, int32_t n_tokens, bool flash_attention);
    void compute(const int32_t * tokens, int32_t count, bool want_logits);
    bool should_stop();

    std::shared_ptr<Model> model_;
    InterruptCheck interrupted_;
    int64_t last_check_us_ = 0;
    int32_t n_ctx_;
    int32_t chunk_size_;
    int64_t n_graphs_built_ = 0;
    llama_context * last_ = nullptr;  // has the logits
    sampling::Workspace workspace_;
    std::unique_ptr<EngineHooks> hooks_;
    std::unique_ptr<KvSpace> space_;  // last: its contexts refer to the members above
};

}  // namespace orin
