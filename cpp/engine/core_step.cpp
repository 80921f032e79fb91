// One step of an engine: what the plan says is computed, its tokens are drawn and handed out.
#include <algorithm>
#include <utility>

#include "clock.h"
#include "core.h"
#include "runtime.h"
#include "step_range.h"

namespace orin {

void Core::step() {
    const double started = now_ms();
    const StepBatch & batch = plan(started);
    if (batch.rows.empty()) {
        return;
    }
    record_ = {};
    record_.started_ms = started;
    record_.n_decode_tokens = batch.n_decode_rows;
    record_.n_prompt_tokens = static_cast<int32_t>(batch.rows.size()) - batch.n_decode_rows;
    try {
        compute(batch);
        draw(batch);
    } catch (const Interrupted &) {  // closing, or all of the step is cancelled
        stepper_->scheduler().fail_step();
        return;
    } catch (...) {
        // Nothing says whose fault it was, so all that took part fail.
        Scheduler & scheduler = stepper_->scheduler();
        scheduler.fail_step();
        for (const RequestId id : scheduler.last_plan().decode) {
            scheduler.cancel(id);
        }
        for (const PrefillPart & part : scheduler.last_plan().prefill) {
            scheduler.cancel(part.id);
        }
        drop(Ending::failed, std::current_exception());
        return;
    }
    finish(batch);
}

void Core::compute(const StepBatch & batch) {
    const bool is_prefill = record_.n_prompt_tokens > 0;
    {
        const StepRange range(is_prefill ? "prefill" : "decode");
        stepper_->computer().compute(batch);
    }
    const StepTimes & times = stepper_->computer().times();
    EngineStats & counts = ledger_.counts();
    counts.times.upload_ms += times.upload_ms;
    (is_prefill ? counts.times.prefill_ms : counts.times.decode_ms) += times.compute_ms;
    (is_prefill ? counts.prefill_steps : counts.decode_steps)++;
    record_.compute_ms = times.compute_ms;
    const int32_t n_found = stepper_->computer().n_found();
    counts.found_tokens += n_found;
    record_.n_prompt_tokens -= n_found;
    for (Completion * completion : in_step_) {
        completion->update([&](CompletionReport & report) {
            report.upload_ms += times.upload_ms;
            if (report.prefilled_ms == 0.0) {
                report.cached_tokens += n_found;
            }
        });
    }
}

void Core::draw(const StepBatch & batch) {
    const double started = now_ms();
    const size_t n = batch.outputs.size();
    rows_.clear();
    for (size_t i = 0; i < n; i++) {
        Completion & completion = *requests_.at(batch.outputs[i].request).completion;
        const int32_t position = batch.rows[static_cast<size_t>(batch.outputs[i].row)].position + 1;
        rows_.push_back(completion.sampler().row(stepper_->computer().logits(i), stepper_->n_vocab(),
                                                 static_cast<uint64_t>(position)));
    }
    drawn_.resize(n);
    sampling::sample_rows(workspace_, rows_.data(), static_cast<int32_t>(n), drawn_.data());
    tokens_.clear();
    for (size_t i = 0; i < n; i++) {
        const int32_t n_logprobs = requests_.at(batch.outputs[i].request).completion->params().n_logprobs;
        tokens_.push_back({drawn_[i], 0.0, {}});
        if (n_logprobs >= 0 && drawn_[i] >= 0) {
            tokens_.back().logprobs =
                sampling::top_logprobs(workspace_, rows_[i].logits, rows_[i].n_vocab, n_logprobs, drawn_[i]);
        }
    }
    record_.sampling_ms = now_ms() - started;
    ledger_.counts().times.sampling_ms += record_.sampling_ms;
}

void Core::finish(const StepBatch & batch) {
    auto held = ledger_.hold();
    const double started = now_ms();
    sampled_.clear();
    for (size_t i = 0; i < drawn_.size(); i++) {
        const bool failed = drawn_[i] < 0;
        const bool may_end = !requests_.at(batch.outputs[i].request).completion->params().ignore_eos;
        const bool ends = failed || (may_end && is_end_token_[static_cast<size_t>(drawn_[i])]);
        sampled_.push_back({failed ? 0 : drawn_[i], ends});
    }
    const std::vector<RequestId> & finished = stepper_->scheduler().finish_step(sampled_);
    const double decided = now_ms();
    ledger_.counts().times.plan_ms += decided - started;
    hand_out(batch);
    bool any_failed = false;
    for (const RequestId id : finished) {
        const auto output = std::find_if(batch.outputs.begin(), batch.outputs.end(),
                                         [&](const BatchOutput & candidate) { return candidate.request == id; });
        const auto i = static_cast<size_t>(output - batch.outputs.begin());
        if (drawn_[i] >= 0) {
            end(id, sampled_[i].ends ? Ending::stop : Ending::length);
            continue;
        }
        any_failed = true;
        try {
            sampling::throw_failure(static_cast<sampling::Failure>(drawn_[i]), rows_[i]);
        } catch (...) {
            end(id, Ending::failed, std::current_exception());
        }
    }
    wake();
    const double done = now_ms();
    ledger_.counts().times.publish_ms += done - decided;
    ledger_.publish(*stepper_);
    record_.duration_ms = done - record_.started_ms;
    ledger_.log(record_);
    held.unlock();
    if (any_failed) {
        stepper_->computer().forget();  // what is no number in it would fail who finds it
        refresh();
    } else if (!finished.empty()) {
        trim();
    }
}

void Core::hand_out(const StepBatch & batch) {
    const double now = now_ms();
    const double sampling_ms = record_.sampling_ms / static_cast<double>(std::max<size_t>(tokens_.size(), 1));
    for (size_t i = 0; i < tokens_.size(); i++) {
        if (drawn_[i] < 0) {
            continue;
        }
        Completion & completion = *requests_.at(batch.outputs[i].request).completion;
        completion.sampler().see(drawn_[i]);
        completion.update([&](CompletionReport & report) {
            report.sampling_ms += sampling_ms;
            if (report.prefilled_ms == 0.0) {
                report.prefilled_ms = now - record_.sampling_ms;
            }
        });
        tokens_[i].time_ms = now;
        completion.add(std::move(tokens_[i]));
        to_wake_.push_back(requests_.at(batch.outputs[i].request).completion);
    }
}

}  // namespace orin
