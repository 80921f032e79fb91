#include "logits_computer.h"

#include "clock.h"

namespace orin {

void LogitsComputer::start(const StepBatch & batch, const std::vector<OutputDraw> & draws) {
    compute(batch);
    draws_ = draws;
}

std::vector<DrawnOutput> & LogitsComputer::collect() {
    const double started = now_ms();
    const size_t n = draws_.size();
    rows_.clear();
    for (size_t i = 0; i < n; i++) {
        rows_.push_back(draws_[i].sampler->row(logits(i), workspace_.max_vocab, draws_[i].position));
    }
    tokens_.resize(n);
    sampling::sample_rows(workspace_, rows_.data(), static_cast<int32_t>(n), tokens_.data());
    drawn_.clear();
    for (size_t i = 0; i < n; i++) {
        drawn_.push_back({tokens_[i], {}, nullptr});
        if (tokens_[i] < 0) {
            try {
                sampling::throw_failure(static_cast<sampling::Failure>(tokens_[i]), rows_[i]);
            } catch (...) {
                drawn_.back().error = std::current_exception();
            }
        } else if (draws_[i].n_logprobs >= 0) {
            drawn_.back().logprobs = sampling::top_logprobs(workspace_, rows_[i].logits, workspace_.max_vocab,
                                                            draws_[i].n_logprobs, tokens_[i]);
        }
    }
    times_.sampling_ms = now_ms() - started;
    return drawn_;
}

}  // namespace orin
