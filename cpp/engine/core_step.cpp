// One step of an engine: what the plan says is computed, its tokens are drawn and handed out.
#include <algorithm>
#include <utility>

#include "../sampling/check.h"
#include "clock.h"
#include "core.h"
#include "runtime.h"
#include "step_range.h"

namespace orin {
namespace {

std::exception_ptr error_of(const DrawnOutput & failed) {
    if (failed.error) {
        return failed.error;
    }
    try {
        sampling::throw_failure(static_cast<sampling::Failure>(failed.token), {});
    } catch (...) {
        return std::current_exception();
    }
}

}  // namespace

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
    draws_.clear();
    for (const BatchOutput & output : batch.outputs) {
        Completion & completion = *requests_.at(output.request).completion;
        const int32_t position = batch.rows[static_cast<size_t>(output.row)].position + 1;
        draws_.push_back({&completion.sampler(), completion.params().n_logprobs, static_cast<uint64_t>(position)});
    }
    {
        const StepRange range(is_prefill ? "prefill" : "decode");
        stepper_->computer().start(batch, draws_);
    }
    drawn_ = &stepper_->computer().collect();
    const StepTimes & times = stepper_->computer().times();
    EngineStats & counts = ledger_.counts();
    counts.times.upload_ms += times.upload_ms;
    counts.times.sampling_ms += times.sampling_ms;
    (is_prefill ? counts.times.prefill_ms : counts.times.decode_ms) += times.compute_ms;
    (is_prefill ? counts.prefill_steps : counts.decode_steps)++;
    record_.compute_ms = times.compute_ms;
    record_.sampling_ms = times.sampling_ms;
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

void Core::finish(const StepBatch & batch) {
    auto held = ledger_.hold();
    const double started = now_ms();
    sampled_.clear();
    for (size_t i = 0; i < drawn_->size(); i++) {
        const int32_t token = (*drawn_)[i].token;
        const bool failed = token < 0;
        const bool may_end = !requests_.at(batch.outputs[i].request).completion->params().ignore_eos;
        const bool ends = failed || (may_end && is_end_token_[static_cast<size_t>(token)]);
        sampled_.push_back({failed ? 0 : token, ends});
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
        if ((*drawn_)[i].token >= 0) {
            end(id, sampled_[i].ends ? Ending::stop : Ending::length);
            continue;
        }
        any_failed = true;
        end(id, Ending::failed, error_of((*drawn_)[i]));
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
    const double sampling_ms = record_.sampling_ms / static_cast<double>(std::max<size_t>(drawn_->size(), 1));
    for (size_t i = 0; i < drawn_->size(); i++) {
        DrawnOutput & drawn = (*drawn_)[i];
        if (drawn.token < 0) {
            continue;
        }
        Completion & completion = *requests_.at(batch.outputs[i].request).completion;
        completion.sampler().see(drawn.token);
        completion.update([&](CompletionReport & report) {
            report.sampling_ms += sampling_ms;
            if (report.prefilled_ms == 0.0) {
                report.prefilled_ms = now - record_.sampling_ms;
            }
        });
        completion.add({drawn.token, now, std::move(drawn.logprobs)});
        to_wake_.push_back(requests_.at(batch.outputs[i].request).completion);
    }
}

}  // namespace orin
