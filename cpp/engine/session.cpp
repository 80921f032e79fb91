#include "session.h"

#include <algorithm>
#include <cmath>

#include "runtime.h"

namespace orin {
namespace {

constexpr int64_t interrupt_check_interval_us = 20'000;

ggml_type kv_type_from(const std::string & name) {
    for (ggml_type type : {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
        if (name == ggml_type_name(type)) {
            return type;
        }
    }
    throw EngineError("unknown KV type '" + name + "': expected f16, bf16, q8_0 or q4_0");
}

}  // namespace

Session::Session(std::shared_ptr<Model> model, const SessionParams & params, InterruptCheck interrupted)
    : model_(std::move(model)),
      hooks_(params.hooks),
      interrupted_(std::move(interrupted)),
      n_ctx_(params.n_ctx),
      chunk_size_(std::min(params.chunk_size, n_ctx_)),
      workspace_(model_->n_vocab()) {
    if (!model_->is_causal_decoder()) {
        throw LoadError(
            "this model does not write text token by token (it is an encoder, encoder-decoder or diffusion model): "
            "choose a causal language model");
    }
    LoadGuard guard;
    llama_context_params upstream = llama_context_default_params();
    upstream.n_ctx = static_cast<uint32_t>(n_ctx_);
    upstream.n_batch = static_cast<uint32_t>(chunk_size_);
    upstream.n_ubatch = upstream.n_batch;
    upstream.n_seq_max = 1;
    upstream.n_outputs_max = 1;
    upstream.n_threads = params.threads;
    upstream.n_threads_batch = params.threads;
    upstream.type_k = kv_type_from(params.kv_type);
    upstream.type_v = upstream.type_k;
    upstream.no_perf = true;
    upstream.cb_eval_user_data = &hooks_;  // with cb_eval unset: how graphs find their engine's hooks
    upstream.abort_callback = [](void * data) { return static_cast<Session *>(data)->should_stop(); };
    upstream.abort_callback_data = this;
    context_.reset(llama_init_from_model(model_->handle(), upstream));
    if (!context_) {
        const std::string reason = guard.first_error();
        throw EngineError("llama.cpp could not make a context of " + std::to_string(n_ctx_) + " tokens with a " +
                          params.kv_type + " KV cache" + (reason.empty() ? "" : ": " + reason) +
                          ". Try a smaller context.");
    }
    tokens_.reserve(static_cast<size_t>(n_ctx_));
}

int32_t Session::prefill(const std::vector<int32_t> & prompt) {
    if (prompt.empty()) {
        throw EngineError("the prompt is empty: at least one token is needed");
    }
    if (static_cast<int64_t>(prompt.size()) > n_ctx()) {
        throw EngineError("the prompt has " + std::to_string(prompt.size()) + " tokens, the context holds " +
                          std::to_string(n_ctx()));
    }
    const auto mismatch = std::mismatch(prompt.begin(), prompt.end() - 1, tokens_.begin(), tokens_.end());
    truncate(static_cast<int32_t>(mismatch.first - prompt.begin()));
    const auto kept = static_cast<int32_t>(tokens_.size());
    const auto count = static_cast<int32_t>(prompt.size());
    for (int32_t start = kept; start < count; start += chunk_size_) {
        if (should_stop()) {  // on a GPU llama.cpp does not ask within a step
            throw Interrupted("stopped between two chunks of the prompt");
        }
        const int32_t size = std::min(chunk_size_, count - start);
        compute(prompt.data() + start, size, start + size == count);
    }
    return kept;
}

void Session::decode(int32_t token) {
    if (static_cast<int32_t>(tokens_.size()) >= n_ctx()) {
        throw EngineError("the context of " + std::to_string(n_ctx_) + " tokens is full");
    }
    compute(&token, 1, true);
}

void Session::truncate(int32_t n_keep) {
    if (n_keep >= static_cast<int32_t>(tokens_.size())) {
        return;
    }
    fit_cache_to(n_keep);
    has_logits_ = false;
}

// Recurrent state cannot be cut back, so such a model starts over (the caller computes what is then missing).
void Session::fit_cache_to(int32_t n_keep) {
    llama_memory_t memory = llama_get_memory(context_.get());
    if (n_keep > 0 && llama_memory_seq_rm(memory, 0, n_keep, -1)) {
        tokens_.resize(static_cast<size_t>(n_keep));
    } else {
        llama_memory_clear(memory, false);
        tokens_.clear();
    }
}

const float * Session::logits() const {
    if (!has_logits_) {
        throw EngineError("there are no logits yet: compute a prompt first");
    }
    return llama_get_logits_ith(context_.get(), -1);
}

int32_t Session::sample(Sampler & sampler) {
    const sampling::Row row = sampler.row(logits(), model_->n_vocab(), tokens_.size());
    const int32_t token = sampling::sample_row(workspace_, row);
    sampler.see(token);
    return token;
}

std::vector<sampling::TokenLogprob> Session::top_logprobs(int32_t n, int32_t chosen) {
    return sampling::top_logprobs(workspace_, logits(), model_->n_vocab(), n, chosen);
}

void Session::compute(const int32_t * tokens, int32_t count, bool want_logits) {
    const auto position = static_cast<int32_t>(tokens_.size());
    std::vector<int32_t> ids(tokens, tokens + count);
    for (int32_t id : ids) {
        if (id < 0 || id >= model_->n_vocab()) {
            throw EngineError("token id " + std::to_string(id) + " is outside the vocabulary of " +
                              std::to_string(model_->n_vocab()) + " tokens");
        }
    }
    std::vector<int8_t> outputs(ids.size(), 0);
    outputs.back() = want_logits ? 1 : 0;
    std::vector<llama_pos> positions(ids.size());
    std::vector<int32_t> n_sequences(ids.size(), 1);
    llama_seq_id sequence = 0;
    std::vector<llama_seq_id *> sequences(ids.size(), &sequence);
    for (int32_t i = 0; i < count; ++i) {
        positions[static_cast<size_t>(i)] = position + i;
    }
    llama_batch batch{};
    batch.n_tokens = count;
    batch.token = ids.data();
    batch.pos = positions.data();
    batch.n_seq_id = n_sequences.data();
    batch.seq_id = sequences.data();
    batch.logits = outputs.data();

    has_logits_ = false;
    int32_t status;
    try {
        status = llama_decode(context_.get(), batch);
    } catch (...) {
        fit_cache_to(position);
        throw;
    }
    if (status != 0) {
        fit_cache_to(position);
    }
    switch (status) {
        case 0:
            tokens_.insert(tokens_.end(), ids.begin(), ids.end());
            has_logits_ = want_logits;
            return;
        case 1:
            throw EngineError("no room in the KV cache for " + std::to_string(count) + " more tokens");
        case 2:
            throw Interrupted("stopped during a step");
        default:
            throw EngineError("llama.cpp failed to compute a step of " + std::to_string(count) + " tokens (status " +
                              std::to_string(status) + "): probably out of memory");
    }
}

bool Session::should_stop() {
    const int64_t now = ggml_time_us();
    if (!interrupted_ || now - last_check_us_ < interrupt_check_interval_us) {
        return false;
    }
    last_check_us_ = now;
    return interrupted_();
}

}  // namespace orin
