#include "paged_computer.h"

#include <algorithm>

#include "clock.h"
#include "runtime.h"

namespace orin {
namespace {

int32_t n_sequences(const EngineParams & params, bool has_idle_lanes) {
    return params.max_batch + (has_idle_lanes ? 1 : 0);
}

PagedHookConfig hook_config(const EngineParams & params, bool has_idle_lanes) {
    PagedHookConfig hook;
    hook.max_sequences = params.max_batch;
    hook.max_tokens = params.n_ctx;
    // For memory to be reserved, llama.cpp builds a graph in which all sequences have the same number of tokens.
    hook.max_step_tokens = params.chunk_size + params.max_batch + n_sequences(params, has_idle_lanes) - 1;
    hook.n_threads = params.threads;
    hook.idle_sequence = has_idle_lanes ? params.max_batch : -1;
    hook.gather = params.gather && params.flash_attention != FlashAttention::off;
    hook.growth = params.growth;
    hook.attention = params.paging == Paging::on;
    return hook;
}

}  // namespace

PagedComputer::PagedComputer(PagedKv & pages, const EngineParams & params, int32_t n_vocab, bool has_idle_lanes)
    : LogitsComputer(n_vocab),
      params_(params),
      has_idle_lanes_(has_idle_lanes),
      pool_(pages),
      hook_(pool_, hook_config(params, has_idle_lanes)) {}

bool PagedComputer::make_contexts(Model & model, EngineHooks & hooks, const StopCheck & stop) {
    const int32_t n = n_sequences(params_, has_idle_lanes_);
    const auto make = [&](int32_t n_tokens, int32_t n_outputs) {
        return make_context(model, params_, {n_tokens, n, n_outputs}, FlashAttention::on, hooks, stop);
    };
    try {
        if (!prefill_) {
            prefill_ = make(params_.chunk_size + params_.max_batch, n - 1 + params_.prompt_outputs);
        }
        if (!decode_) {
            decode_ = make(params_.max_batch, n);
        }
    } catch (const EngineError &) {
        if (hook_.refusal().empty()) {
            throw;
        }
    }
    return hook_.refusal().empty();
}

llama_context * PagedComputer::context_for(const StepBatch & batch) const {
    const bool has_prompt_tokens = static_cast<size_t>(batch.n_decode_rows) < batch.rows.size();
    return has_prompt_tokens ? prefill_.get() : decode_.get();
}

void PagedComputer::grow() {
    try {
        pool_.grow();
    } catch (const OutOfMemory & error) {
        throw KvFull(error.what(), pool_.n_pages_with_memory());
    }
}

void PagedComputer::take_rows(const StepBatch & batch) {
    rows_.clear();
    for (const BatchRow & row : batch.rows) {
        // llama.cpp refuses the id of an unknown token; the device does not look at it
        rows_.add(std::max(row.token, 0), row.position, row.sequence, row.wants_logits);
    }
    output_rows_.clear();
    for (const BatchOutput & output : batch.outputs) {
        output_rows_.push_back(output.row);
    }
}

void PagedComputer::compute_rows_in(llama_context * context) {
    last_ = context;
    n_graphs_built_ += compute_rows(context, rows_);
}

void PagedComputer::compute(const StepBatch & batch) {
    const double started = now_ms();
    grow();
    pool_.copy_pages(batch.copies);
    take_rows(batch);
    const double uploaded = now_ms();
    times_.upload_ms = uploaded - started;
    compute_rows_in(context_for(batch));
    times_.compute_ms = now_ms() - uploaded;
}

const float * PagedComputer::logits(size_t output) const {
    return llama_get_logits_ith(last_, output_rows_[output]);
}

void PagedComputer::forget() {
    pool_.pages().drop_cached();
    trim();
}

}  // namespace orin
