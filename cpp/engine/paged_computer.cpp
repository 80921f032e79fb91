#include "paged_computer.h"

#include "clock.h"
#include "runtime.h"

namespace orin {
namespace {

PagedHookConfig hook_config(const EngineParams & params) {
    PagedHookConfig hook;
    hook.max_sequences = params.max_batch;
    hook.max_tokens = params.n_ctx;
    hook.max_step_tokens = params.chunk_size + params.max_batch;
    hook.n_threads = params.threads;
    hook.attention = params.paging == Paging::on;
    return hook;
}

}  // namespace

PagedComputer::PagedComputer(PagedKv & pages, const EngineParams & params, int32_t n_vocab)
    : LogitsComputer(n_vocab), params_(params), pool_(pages), hook_(pool_, hook_config(params)) {}

bool PagedComputer::make_contexts(Model & model, EngineHooks & hooks, const StopCheck & stop) {
    const auto make = [&](int32_t n_tokens) {
        return make_context(model, params_, {n_tokens, params_.max_batch}, true, hooks, stop);
    };
    try {
        prefill_ = make(params_.chunk_size + params_.max_batch);
        decode_ = make(params_.max_batch);
    } catch (const EngineError &) {
        if (hook_.refusal().empty()) {
            throw;
        }
    }
    return hook_.refusal().empty();
}

void PagedComputer::compute(const StepBatch & batch) {
    const double started = now_ms();
    pool_.grow();
    pool_.copy_pages(batch.copies);
    rows_.clear();
    for (const BatchRow & row : batch.rows) {
        rows_.add(row.token, row.position, row.sequence, row.wants_logits);
    }
    output_rows_.clear();
    for (const BatchOutput & output : batch.outputs) {
        output_rows_.push_back(output.row);
    }
    const bool has_prompt_tokens = static_cast<size_t>(batch.n_decode_rows) < batch.rows.size();
    last_ = has_prompt_tokens ? prefill_.get() : decode_.get();
    const double uploaded = now_ms();
    times_.upload_ms = uploaded - started;
    n_graphs_built_ += compute_rows(last_, rows_);
    times_.compute_ms = now_ms() - uploaded;
}

const float * PagedComputer::logits(size_t output) const {
    return llama_get_logits_ith(last_, output_rows_[output]);
}

void PagedComputer::forget() {
    pool_.pages().drop_cached();
    pool_.trim();
}

}  // namespace orin
