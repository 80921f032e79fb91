#include "core.h"

#include <algorithm>
#include <utility>

#include "clock.h"
#include "runtime.h"

namespace orin {
namespace {

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
        requests_[id] = std::make_shared<Request>(Request{id, std::move(completion)});
        has_new_requests_ = true;
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
        if (request->completion->is_cancelled()) {
            stepper_->scheduler().cancel(id);
        }
    }
    drop(Ending::cancelled, nullptr);
}

// Nothing says whose fault it was, so all that took part fail.
void Core::fail(const Step & step, const std::exception_ptr & error) {
    for (const RequestPtr & request : step.requests) {
        stepper_->scheduler().cancel(request->id);
    }
    drop(Ending::failed, error);
}

// What the scheduler was told to cancel.
void Core::drop(Ending ending, const std::exception_ptr & error) {
    const auto held = ledger_.hold();
    for (const RequestId id : stepper_->scheduler().drop_cancelled()) {
        end(id, ending, error);
    }
    ledger_.publish(*stepper_);
    wake();
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
    if (stepper_->computer().wants_trim()) {
        stepper_->computer().trim();
        refresh();
    }
}

void Core::refresh() {
    const auto held = ledger_.hold();
    ledger_.publish(*stepper_);
}

// The scheduler may be in the middle of something, and is not asked any more.
void Core::fail_all(const std::string & reason) {
    discard_all();
    shortage_ = nullptr;
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
    Request & request = *found->second;
    request.has_ended = true;
    request.completion->end(ending, std::move(error));
    const AnswerRecord answer = request.completion->answer();
    if (answer.n_tokens > 0) {
        ledger_.add(answer);
    }
    to_wake_.push_back(request.completion);
    requests_.erase(found);
    if (requests_.empty()) {
        take_all_pages();
    }
}

}  // namespace orin
