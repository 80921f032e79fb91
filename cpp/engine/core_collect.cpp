// What becomes of a step of an engine that is under way: its tokens are collected and handed out.
#include <algorithm>
#include <utility>

#include "../sampling/check.h"
#include "clock.h"
#include "core.h"
#include "runtime.h"

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

// Of the oldest step.
void Core::collect() {
    Step & step = steps_[static_cast<size_t>(oldest_)];
    computed_ = &step;
    std::vector<DrawnOutput> * drawn = nullptr;
    std::exception_ptr error;
    try {
        drawn = &stepper_->computer().collect();
    } catch (const Interrupted &) {
    } catch (...) {
        error = std::current_exception();
    }
    if (drawn != nullptr) {
        oldest_ = 1 - oldest_;
        n_under_way_--;
        note_computed(step);
        finish(step, *drawn);
        step.clear();
        return;
    }
    // A step that was started after it has read what it did not write.
    for (int32_t i = 0; i < n_under_way_; i++) {
        stepper_->scheduler().fail_step();
    }
    n_under_way_--;
    discard_all();
    if (error) {
        fail(step, error);
    }
}

// What is still under way is waited for, and not looked at.
void Core::discard_all() {
    for (; n_under_way_ > 0; n_under_way_--) {
        try {
            stepper_->computer().collect();
        } catch (...) {
        }
    }
}

void Core::settle() {
    while (n_under_way_ > 0) {
        collect();
    }
    take_all_pages();
    if (std::exchange(must_forget_, false)) {
        must_trim_ = false;
        stepper_->computer().forget();
        refresh();
    } else if (std::exchange(must_trim_, false)) {
        trim();
    }
}

void Core::note_computed(Step & step) {
    const StepTimes & times = stepper_->computer().times();
    const bool is_prefill = step.record.n_prompt_tokens > 0;
    EngineStats & counts = ledger_.counts();
    counts.times.upload_ms += times.upload_ms;
    counts.times.sampling_ms += times.sampling_ms;
    (is_prefill ? counts.times.prefill_ms : counts.times.decode_ms) += times.compute_ms;
    (is_prefill ? counts.prefill_steps : counts.decode_steps)++;
    step.record.compute_ms = times.compute_ms;
    step.record.sampling_ms = times.sampling_ms;
    const int32_t n_found = stepper_->computer().n_found();
    counts.found_tokens += n_found;
    step.record.n_prompt_tokens -= n_found;
    for (const RequestPtr & request : step.requests) {
        request->completion->update([&](CompletionReport & report) {
            report.upload_ms += times.upload_ms;
            if (report.prefilled_ms == 0.0) {
                report.cached_tokens += n_found;
            }
        });
    }
}

void Core::finish(Step & step, std::vector<DrawnOutput> & drawn) {
    const double collected = now_ms();
    auto held = ledger_.hold();
    const double started = now_ms();
    sampled_.clear();
    for (size_t i = 0; i < drawn.size(); i++) {
        const int32_t token = drawn[i].token;
        const bool failed = token < 0;
        const bool may_end = !step.outputs[i]->completion->params().ignore_eos;
        const bool ends = failed || (may_end && is_end_token_[static_cast<size_t>(token)]);
        sampled_.push_back({failed ? 0 : token, ends});
    }
    Scheduler & scheduler = stepper_->scheduler();
    const PageCounters before = scheduler.kv().counters();
    const std::vector<RequestId> & finished = scheduler.finish_step(sampled_);
    const PageCounters after = scheduler.kv().counters();
    step.record.kv_lookups = after.lookups - before.lookups;
    step.record.kv_misses = after.misses - before.misses;
    const double decided = now_ms();
    ledger_.counts().times.plan_ms += decided - started;
    hand_out(step, drawn);
    auto next = finished.begin();  // they are in order of outputs
    for (size_t i = 0; next != finished.end(); i++) {
        if (step.outputs[i]->id != *next) {
            continue;
        }
        const bool failed = drawn[i].token < 0;
        if (failed) {
            must_forget_ = true;  // what is no number in it would fail who finds it
            end(*next, Ending::failed, error_of(drawn[i]));
        } else {
            end(*next, sampled_[i].ends ? Ending::stop : Ending::length);
        }
        ++next;
    }
    wake();
    const double done = now_ms();
    ledger_.counts().times.publish_ms += done - decided;
    ledger_.publish(*stepper_);
    step.record.started_ms = std::max(step.record.started_ms, last_done_ms_);
    step.record.duration_ms = done - step.record.started_ms;
    step.record.publish_ms = done - collected;
    last_done_ms_ = done;
    ledger_.log(step.record);
    held.unlock();
    must_trim_ = must_trim_ || (!finished.empty() && stepper_->computer().wants_trim());
}

void Core::hand_out(const Step & step, std::vector<DrawnOutput> & drawn) {
    const double now = now_ms();
    const double sampling_ms = step.record.sampling_ms / static_cast<double>(std::max<size_t>(drawn.size(), 1));
    for (size_t i = 0; i < drawn.size(); i++) {
        const Request & request = *step.outputs[i];
        if (drawn[i].token < 0 || request.has_ended) {
            continue;
        }
        request.completion->sampler().see(drawn[i].token);
        request.completion->update([&](CompletionReport & report) {
            report.sampling_ms += sampling_ms;
            if (report.prefilled_ms == 0.0) {
                report.prefilled_ms = now - step.record.sampling_ms;
            }
        });
        request.completion->add({drawn[i].token, now, std::move(drawn[i].logprobs)});
        to_wake_.push_back(request.completion);
    }
}

}  // namespace orin
