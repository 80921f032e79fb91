#include "context.h"

#include <atomic>
#include <string>

#include "../hooks/engine_hooks.h"
#include "gpu.h"
#include "llama-context.h"
#include "runtime.h"

namespace orin {
namespace {

// llama.cpp counts the captures of CUDA graphs that the process has under way, and waits for their end before it frees
// a context. One that a failure broke off never ends.
std::atomic<bool> may_wait_for_ever{false};

bool is_on_gpu(const llama_context & context) {
    ggml_backend_dev_t device = ggml_backend_get_device(backend_of(context));
    return ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU;
}

llama_flash_attn_type to_upstream(FlashAttention flash) {
    switch (flash) {
        case FlashAttention::on:
            return LLAMA_FLASH_ATTN_TYPE_ENABLED;
        case FlashAttention::off:
            return LLAMA_FLASH_ATTN_TYPE_DISABLED;
        case FlashAttention::automatic:
            break;
    }
    return LLAMA_FLASH_ATTN_TYPE_AUTO;
}

}  // namespace

void FreeContext::operator()(llama_context * context) const {
    if (!may_wait_for_ever || !is_on_gpu(*context)) {
        llama_free(context);
    }
}

int32_t padded_context(int32_t n_ctx) {
    return GGML_PAD(n_ctx, 256);
}

ContextPtr make_context(Model & model, const EngineParams & params, ContextSize size, FlashAttention flash,
                        EngineHooks & hooks, const StopCheck & stop) {
    if (flash == FlashAttention::off && ggml_is_quantized(params.kv_types.v)) {
        throw EngineError(std::string("without flash attention llama.cpp's KV cache has no values of type ") +
                          ggml_type_name(params.kv_types.v) + ": leave --flash at auto, or take f16 for values (-ctk " +
                          ggml_type_name(params.kv_types.k) + ":f16)");
    }
    AbortGuard guard;
    llama_context_params upstream = llama_context_default_params();
    upstream.n_ctx = static_cast<uint32_t>(padded_context(params.n_ctx));
    upstream.n_batch = static_cast<uint32_t>(size.n_tokens);
    upstream.n_ubatch = upstream.n_batch;
    upstream.n_seq_max = static_cast<uint32_t>(size.n_sequences);
    upstream.n_outputs_max = static_cast<uint32_t>(size.n_outputs);
    upstream.kv_unified = true;
    upstream.n_threads = params.threads;
    upstream.n_threads_batch = params.threads;
    upstream.type_k = params.kv_types.k;
    upstream.type_v = params.kv_types.v;
    upstream.no_perf = true;
    upstream.flash_attn_type = to_upstream(flash);
    upstream.cb_eval_user_data = &hooks;  // with cb_eval unset: how graphs find their engine's hooks
    upstream.abort_callback = stop.stops;
    upstream.abort_callback_data = stop.data;
    const std::string what = "llama.cpp could not make a context of " + std::to_string(params.n_ctx) +
                             " tokens with a " + to_string(params.kv_types) + " KV cache";
    ContextPtr context;
    on_gpu(model.gpu(), [&] { return what; }, [&] { context.reset(llama_init_from_model(model.handle(), upstream)); });
    if (!context) {
        const std::string reason = guard.first_error();
        if (model.gpu() != nullptr && is_lack_of_memory(reason)) {
            throw gpu_error(model.gpu(), what, reason, lower_memory);
        }
        throw EngineError(what + (reason.empty() ? "" : ": " + reason) +
                          ". Try a smaller context (-c/--ctx-size, n_ctx in Python).");
    }
    if (llama_get_memory(context.get()) == nullptr) {
        throw LoadError(
            "this model does not write text token by token (it is an encoder, which keeps no memory of a text): choose "
            "a causal language model");
    }
    return context;
}

ggml_backend_t backend_of(const llama_context & context) {
    return ggml_backend_sched_get_backend(context.get_sched(), 0);
}

void RowArrays::clear() {
    tokens_.clear();
    positions_.clear();
    sequences_.clear();
    n_sequences_.clear();
    wants_logits_.clear();
}

void RowArrays::add(int32_t token, int32_t position, llama_seq_id sequence, bool wants_logits) {
    tokens_.push_back(token);
    positions_.push_back(position);
    sequences_.push_back(sequence);
    n_sequences_.push_back(1);
    wants_logits_.push_back(wants_logits ? 1 : 0);
}

llama_batch RowArrays::batch() {
    sequence_pointers_.clear();
    for (llama_seq_id & sequence : sequences_) {
        sequence_pointers_.push_back(&sequence);
    }
    llama_batch batch{};
    batch.n_tokens = static_cast<int32_t>(tokens_.size());
    batch.token = tokens_.data();
    batch.pos = positions_.data();
    batch.n_seq_id = n_sequences_.data();
    batch.seq_id = sequence_pointers_.data();
    batch.logits = wants_logits_.data();
    return batch;
}

namespace {

int32_t decode(llama_context & context, const llama_batch & batch) {
    try {
        return llama_decode(&context, batch);
    } catch (const Aborted &) {
        may_wait_for_ever = may_wait_for_ever || is_on_gpu(context);
        throw;
    }
}

}  // namespace

bool compute_rows(llama_context * context, RowArrays & rows) {
    const llama_batch batch = rows.batch();
    const int32_t n_reused = llama_perf_context(context).n_reused;
    const int32_t status = decode(*context, batch);
    const std::string n_tokens = std::to_string(batch.n_tokens);
    switch (status) {
        case 0:
            return llama_perf_context(context).n_reused == n_reused;
        case 1:
            throw EngineError("llama.cpp found no room in its KV cache for " + n_tokens +
                              " more tokens: forget what is cached, or make the engine anew");
        case 2:
            throw Interrupted("stopped during a step");
        default:
            throw StepFailed("llama.cpp failed to compute a step of " + n_tokens + " tokens (status " +
                             std::to_string(status) +
                             "), probably for lack of memory: try a smaller --chunk-size or --kv-memory");
    }
}

}  // namespace orin
