#include "core.h"

#include <algorithm>
#include <utility>

#include "clock.h"
#include "runtime.h"
#include "step_range.h"

namespace orin {
namespace {

constexpr double stop_check_interval_ms = 20.0;

std::vector<bool> end_tokens_of(const Stepper & stepper) {
    std::vector<bool> result(static_cast<size_t>(stepper.n_vocab()));
    for (const int32_t token : stepper.end_tokens()) {
        result[static_cast<size_t>(token)] = true;
    }
    return result;
}

}  // namespace

Core::Core(const MakeStepper & make_stepper, std::shared_ptr<const Mailbox> mailbox)
    : mailbox_(std::move(mailbox)),
      stepper_(make_stepper({should_stop, this})),
      is_end_token_(end_tokens_of(*stepper_)),
      workspace_(stepper_->n_vocab()) {
    refresh();
}

void Core::admit(std::shared_ptr<Completion> completion) {
    const CompletionParams & params = completion->params();
    const double submitted = completion->report().submitted_ms;
    RequestParams request;
    request.prompt = params.prompt;
    request.max_tokens = params.max_tokens;
    request.priority = params.priority;
    if (params.timeout_ms > 0.0) {
        request.deadline_ms = submitted + params.timeout_ms;
    }
    try {
        const RequestId id = stepper_->scheduler().submit(request, submitted);
        requests_[id].completion = std::move(completion);
    } catch (...) {
        const auto held = ledger_.hold();
        ledger_.counts().failed++;
        ledger_.publish(*stepper_);
        completion->end(Ending::failed, std::current_exception());
        completion->wake();
        doorbells_.ring();
    }
}

void Core::drop_cancelled() {
    for (const auto & [id, request] : requests_) {
        if (request.completion->is_cancelled()) {
            stepper_->scheduler().cancel(id);
        }
    }
    drop(Ending::cancelled, nullptr);
}

// What the scheduler was told to cancel.
void Core::drop(Ending ending, std::exception_ptr error) {
    const auto held = ledger_.hold();
    for (const RequestId id : stepper_->scheduler().drop_cancelled()) {
        end(id, ending, error);
    }
    ledger_.publish(*stepper_);
    wake();
}

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

const StepBatch & Core::plan(double now) {
    const auto held = ledger_.hold();
    const StepBatch & batch = stepper_->scheduler().plan(now);
    note_plan(batch, now);
    ledger_.counts().times.plan_ms += now_ms() - now;
    ledger_.publish(*stepper_);
    wake();
    return batch;
}

// What the plan says about requests: which are gone, which begin, which had to give way.
void Core::note_plan(const StepBatch & batch, double now) {
    const StepPlan & plan = stepper_->scheduler().last_plan();
    for (const RequestId id : plan.expire) {
        end(id, Ending::deadline);
    }
    for (const RequestId id : plan.preempt) {
        requests_.at(id).completion->update([](CompletionReport & report) { report.preemptions++; });
    }
    in_step_.clear();
    for (const RequestId id : plan.decode) {
        in_step_.push_back(requests_.at(id).completion.get());
    }
    auto first_row = batch.rows.begin() + batch.n_decode_rows;
    for (const PrefillPart & part : plan.prefill) {
        Request & request = requests_.at(part.id);
        in_step_.push_back(request.completion.get());
        if (!std::exchange(request.has_started, true)) {
            request.completion->update([&](CompletionReport & report) {
                report.started_ms = now;
                report.cached_tokens = first_row->position;  // those before it were found
            });
        }
        first_row += part.n_tokens;
    }
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

// Those that got something.
void Core::wake() {
    if (to_wake_.empty()) {
        return;
    }
    for (const std::shared_ptr<Completion> & completion : to_wake_) {
        completion->wake();
    }
    to_wake_.clear();
    doorbells_.ring();
}

// May take long: nobody waits for the ledger meanwhile.
void Core::trim() {
    stepper_->computer().trim();
    refresh();
}

void Core::refresh() {
    const auto held = ledger_.hold();
    ledger_.publish(*stepper_);
}

// The scheduler may be in the middle of something, and is not asked any more.
void Core::fail_all(const std::string & reason) {
    const auto held = ledger_.hold();
    const std::exception_ptr error = std::make_exception_ptr(EngineError(reason));
    while (!requests_.empty()) {
        end(requests_.begin()->first, Ending::failed, error);
    }
    ledger_.close();
    wake();
}

// PRECOND: the scheduler does not have it any more; the ledger is held.
void Core::end(RequestId id, Ending ending, std::exception_ptr error) {
    ledger_.counts().failed += ending == Ending::failed;
    const auto found = requests_.find(id);
    found->second.completion->end(ending, std::move(error));
    to_wake_.push_back(std::move(found->second.completion));
    requests_.erase(found);
}

bool Core::should_stop(void * data) {
    auto & core = *static_cast<Core *>(data);
    const double now = now_ms();
    if (now - core.last_check_ms_ < stop_check_interval_ms) {
        return false;
    }
    core.last_check_ms_ = now;
    const auto is_cancelled = [](const Completion * completion) { return completion->is_cancelled(); };
    return core.mailbox_->is_closing() || std::all_of(core.in_step_.begin(), core.in_step_.end(), is_cancelled);
}

}  // namespace orin
