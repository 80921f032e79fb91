#include "core.h"

#include <algorithm>
#include <utility>

#include "clock.h"
#include "runtime.h"

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
      is_end_token_(end_tokens_of(*stepper_)) {
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
    const AnswerRecord answer = found->second.completion->answer();
    if (answer.n_tokens > 0) {
        ledger_.add(answer);
    }
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
