#include "session.h"

#include <algorithm>

#include "paged_space.h"
#include "runtime.h"
#include "stock_space.h"

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
      interrupted_(std::move(interrupted)),
      n_ctx_(params.n_ctx),
      chunk_size_(std::min(params.chunk_size, n_ctx_)),
      workspace_(model_->n_vocab()) {
    if (!model_->is_causal_decoder()) {
        throw LoadError(
            "this model does not write text token by token (it is an encoder, encoder-decoder or diffusion model): "
            "choose a causal language model");
    }
    space_ = make_space(params);
}

std::unique_ptr<KvSpace> Session::make_space(const SessionParams & params) {
    const HookConfig hooks = {params.rope, n_ctx_};
    if (params.paging != Paging::off && model_->on_cpu()) {
        PagedSpaceConfig config;
        config.n_ctx = n_ctx_;
        config.chunk_size = chunk_size_;
        config.page_size = params.page_size;
        config.n_threads = params.threads;
        config.prefix_cache = params.prefix_cache;
        config.attention = params.paging == Paging::on;
        auto space = std::make_unique<PagedSpace>(config);
        hooks_ = std::make_unique<EngineHooks>(hooks, &space->hook());
        try {
            space->make_contexts([&](int32_t n_tokens) { return make_context(params, n_tokens, true); });
            return space;
        } catch (const EngineError &) {
            // Not plain attention in all layers, or sizes that our kernel does not take: llama.cpp's own memory.
        }
    }
    hooks_ = std::make_unique<EngineHooks>(hooks);
    return std::make_unique<StockSpace>([&](int32_t n_tokens) { return make_context(params, n_tokens, false); },
                                        chunk_size_);
}

ContextPtr Session::make_context(const SessionParams & params, int32_t n_tokens, bool flash_attention) {
    LoadGuard guard;
    llama_context_params upstream = llama_context_default_params();
    upstream.n_ctx = static_cast<uint32_t>(n_ctx_);
    upstream.n_batch = static_cast<uint32_t>(n_tokens);
    upstream.n_ubatch = upstream.n_batch;
    upstream.n_seq_max = 1;
    upstream.n_outputs_max = 1;
    upstream.n_threads = params.threads;
    upstream.n_threads_batch = params.threads;
    upstream.type_k = kv_type_from(params.kv_type);
    upstream.type_v = upstream.type_k;
    upstream.no_perf = true;
    if (flash_attention) {
        upstream.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    }
    upstream.cb_eval_user_data = hooks_.get();  // with cb_eval unset: how graphs find their engine's hooks
    upstream.abort_callback = [](void * data) { return static_cast<Session *>(data)->should_stop(); };
    upstream.abort_callback_data = this;
    ContextPtr context(llama_init_from_model(model_->handle(), upstream));
    if (!context) {
        const std::string reason = guard.first_error();
        throw EngineError("llama.cpp could not make a context of " + std::to_string(n_ctx_) + " tokens with a " +
                          params.kv_type + " KV cache" + (reason.empty() ? "" : ": " + reason) +
                          ". Try a smaller context.");
    }
    return context;
}

int32_t Session::prefill(const std::vector<int32_t> & prompt) {
    if (prompt.empty()) {
        throw EngineError("the prompt is empty: at least one token is needed");
    }
    if (static_cast<int64_t>(prompt.size()) > n_ctx()) {
        throw EngineError("the prompt has " + std::to_string(prompt.size()) + " tokens, the context holds " +
                          std::to_string(n_ctx()));
    }
    last_ = nullptr;
    space_->reuse(prompt);
    const auto kept = static_cast<int32_t>(tokens().size());
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
    if (static_cast<int32_t>(tokens().size()) >= n_ctx()) {
        throw EngineError("the context of " + std::to_string(n_ctx_) + " tokens is full");
    }
    compute(&token, 1, true);
}

void Session::forget() {
    last_ = nullptr;
    space_->forget();
}

const float * Session::logits() const {
    if (last_ == nullptr) {
        throw EngineError("there are no logits yet: compute a prompt first");
    }
    return llama_get_logits_ith(last_, -1);
}

int32_t Session::sample(Sampler & sampler) {
    const sampling::Row row = sampler.row(logits(), model_->n_vocab(), tokens().size());
    const int32_t token = sampling::sample_row(workspace_, row);
    sampler.see(token);
    return token;
}

std::vector<sampling::TokenLogprob> Session::top_logprobs(int32_t n, int32_t chosen) {
    return sampling::top_logprobs(workspace_, logits(), model_->n_vocab(), n, chosen);
}

void Session::compute(const int32_t * tokens, int32_t count, bool want_logits) {
    const auto position = static_cast<int32_t>(this->tokens().size());
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

    last_ = nullptr;
    space_->place(ids.data(), count);
    llama_context * context = space_->context_for(count);
    const int32_t n_reused = llama_perf_context(context).n_reused;
    int32_t status;
    try {
        status = llama_decode(context, batch);
    } catch (...) {
        space_->undo();
        throw;
    }
    n_graphs_built_ += llama_perf_context(context).n_reused == n_reused;
    if (status != 0) {
        space_->undo();
    }
    switch (status) {
        case 0:
            space_->commit(ids.data(), count);
            last_ = want_logits ? context : nullptr;
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
