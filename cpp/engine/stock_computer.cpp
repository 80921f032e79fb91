#include "stock_computer.h"

#include <algorithm>

#include "clock.h"
#include "gpu.h"
#include "runtime.h"

namespace orin {

StockComputer::StockComputer(const Scheduler & scheduler, Model & model, const EngineParams & params,
                             EngineHooks & hooks, const StopCheck & stop)
    : LogitsComputer(model.n_vocab()),
      scheduler_(scheduler),
      chunk_size_(params.chunk_size),
      gpu_(model.gpu()),
      context_(make_context(model, params, {params.chunk_size, 1, params.prompt_outputs}, params.flash_attention, hooks,
                            stop)) {}

void StockComputer::compute(const StepBatch & batch) {
    const StepPlan & plan = scheduler_.last_plan();
    const RequestId request = plan.decode.empty() ? plan.prefill.front().id : plan.decode.front();
    const std::vector<int32_t> & known = scheduler_.tokens(request);
    // The last token's logits are needed, so it is never among those that are there.
    const auto mismatch = std::mismatch(known.begin(), known.end() - 1, tokens_.begin(), tokens_.end());
    times_ = {};
    truncate(static_cast<int32_t>(mismatch.first - known.begin()));
    n_found_ = std::clamp(n_tokens() - batch.rows.front().position, 0, static_cast<int32_t>(batch.rows.size()));
    // What a step before this one lost is computed, too.
    const int32_t end = batch.rows.back().position + 1;
    while (n_tokens() < end) {
        extend(known, std::min(end, n_tokens() + chunk_size_), batch);
    }
}

void StockComputer::extend(const std::vector<int32_t> & known, int32_t end, const StepBatch & batch) {
    const double started = now_ms();
    const int32_t begin = n_tokens();
    rows_.clear();
    output_rows_.clear();
    for (int32_t position = begin; position < end; position++) {
        const int32_t row = position - batch.rows.front().position;  // below 0: of a step that was lost
        const bool wants_logits = row >= 0 && batch.rows[static_cast<size_t>(row)].wants_logits;
        if (wants_logits) {
            output_rows_.push_back(rows_.size());
        }
        rows_.add(known[static_cast<size_t>(position)], position, 0, wants_logits);
    }
    const double uploaded = now_ms();
    times_.upload_ms += uploaded - started;
    try {
        const auto what = [&] { return "a step of " + std::to_string(rows_.size()) + " tokens failed on the GPU"; };
        on_gpu(gpu_, what, [&] {
            n_graphs_built_ += compute_rows(context_.get(), rows_);
            llama_synchronize(context_.get());  // a GPU may fail until then
        });
    } catch (...) {
        tokens_.push_back(known[static_cast<size_t>(begin)]);  // some of it may be there
        truncate(begin);
        throw;
    }
    tokens_.insert(tokens_.end(), known.begin() + begin, known.begin() + end);
    times_.compute_ms += now_ms() - uploaded;
}

const float * StockComputer::logits(size_t output) const {
    const float * row = nullptr;
    const auto what = [] { return "logits could not be brought from the GPU"; };
    on_gpu(gpu_, what, [&] { row = llama_get_logits_ith(context_.get(), output_rows_[output]); });
    return row;
}

// Recurrent state cannot be cut back, so such a model starts over.
void StockComputer::truncate(int32_t n_keep) {
    if (n_keep >= n_tokens()) {
        return;
    }
    llama_memory_t memory = llama_get_memory(context_.get());
    tokens_.resize(static_cast<size_t>(n_keep));
    if (n_keep == 0 || !llama_memory_seq_rm(memory, 0, n_keep, -1)) {
        llama_memory_clear(memory, false);
        tokens_.clear();
    }
}

}  // namespace orin
