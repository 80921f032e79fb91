// How a step of an engine comes about: it is planned and started.
#include <algorithm>
#include <utility>

#include "clock.h"
#include "core.h"
#include "runtime.h"
#include "step_range.h"

namespace orin {
namespace {

constexpr double stop_check_interval_ms = 20.0;

}  // namespace

void Core::Step::clear() {
    requests.clear();
    outputs.clear();
    record = {};
}

void Core::step() {
    const int32_t max_under_way = stepper_->computer().max_steps_under_way();
    while (n_under_way_ < max_under_way && start_next()) {
    }
    if (n_under_way_ > 0) {
        collect();
    }
    if (must_forget_ || must_trim_) {
        settle();
    }
}

// Whether there was something to start, and it could be started.
bool Core::start_next() {
    Step & step = steps_[static_cast<size_t>((oldest_ + n_under_way_) % 2)];
    step.clear();
    const StepBatch & batch = plan(step, now_ms());
    if (batch.rows.empty()) {
        fail_stuck();
        return false;
    }
    try {
        start(step, batch);
    } catch (const KvFull & shortage) {
        stepper_->scheduler().fail_step();
        take_fewer_pages(shortage);
        return false;
    } catch (const Interrupted &) {  // closing, or all of the step is cancelled
        stepper_->scheduler().fail_step();
        return false;
    } catch (...) {
        stepper_->scheduler().fail_step();
        fail(step, std::current_exception());
        return false;
    }
    n_under_way_++;
    note_started(step);
    return true;
}

const StepBatch & Core::plan(Step & step, double now) {
    const auto held = ledger_.hold();
    Scheduler & scheduler = stepper_->scheduler();
    const StepBatch & batch = scheduler.plan(now);
    note_plan(step, batch, now);
    ledger_.counts().times.plan_ms += now_ms() - now;
    const StepPlan & plan = scheduler.last_plan();
    const bool moved = !plan.expire.empty() || !plan.preempt.empty() || !plan.admit.empty();
    if (std::exchange(has_new_requests_, false) || moved) {
        ledger_.publish(*stepper_);  // all else can wait until the step is finished
    }
    wake();
    return batch;
}

// What the plan says about requests: which are gone, which begin, which had to give way, whose tokens are in the step.
void Core::note_plan(Step & step, const StepBatch & batch, double now) {
    const StepPlan & plan = stepper_->scheduler().last_plan();
    for (const RequestId id : plan.expire) {
        end(id, Ending::deadline);
    }
    for (const RequestId id : plan.preempt) {
        requests_.at(id)->completion->update([](CompletionReport & report) { report.preemptions++; });
    }
    for (const RequestId id : plan.decode) {
        step.requests.push_back(requests_.at(id));
        step.outputs.push_back(step.requests.back().get());
    }
    auto first_row = batch.rows.begin() + batch.n_decode_rows;
    for (const PrefillPart & part : plan.prefill) {
        step.requests.push_back(requests_.at(part.id));
        Request & request = *step.requests.back();
        if (part.reaches_end) {
            step.outputs.push_back(&request);
        }
        if (!std::exchange(request.has_started, true)) {
            request.completion->update([&](CompletionReport & report) {
                report.started_ms = now;
                report.cached_tokens = first_row->position;  // those before it were found
            });
        }
        first_row += part.n_tokens;
    }
    note_given_up(step);
    step.record.started_ms = now;
    step.record.n_decode_tokens = batch.n_decode_rows;
    step.record.n_prompt_tokens = static_cast<int32_t>(batch.rows.size()) - batch.n_decode_rows;
}

// What was given up for steps that were not started is the next one's.
void Core::note_given_up(Step & step) {
    Scheduler & scheduler = stepper_->scheduler();
    step.record.kv_evictions = scheduler.kv().counters().evictions - n_evicted_;
    step.record.preemptions = scheduler.counters().preempted - n_preempted_;
}

void Core::note_started(const Step & step) {
    n_evicted_ += step.record.kv_evictions;
    n_preempted_ += step.record.preemptions;
}

void Core::start(Step & step, const StepBatch & batch) {
    draws_.clear();
    for (size_t i = 0; i < step.outputs.size(); i++) {
        Completion & completion = *step.outputs[i]->completion;
        const int32_t position = batch.rows[static_cast<size_t>(batch.outputs[i].row)].position + 1;
        draws_.push_back({&completion.sampler(), completion.params().n_logprobs, static_cast<uint64_t>(position)});
    }
    computed_ = &step;
    const StepRange range(step.record.n_prompt_tokens > 0 ? "prefill" : "decode");
    stepper_->computer().start(batch, draws_);
}

// What is planned next makes do with the memory that is there: cached prompts go, then requests are preempted. All
// pages in use have memory, for those of the step were given back.
void Core::take_fewer_pages(const KvFull & shortage) {
    shortage_ = std::make_exception_ptr(shortage);
    stepper_->scheduler().limit_pages(shortage.n_pages);
}

// Others may have given memory back.
void Core::take_all_pages() {
    if (std::exchange(shortage_, nullptr)) {
        stepper_->scheduler().lift_limit();
    }
}

// Who alone does not fit into the memory that is there ends for lack of it.
void Core::fail_stuck() {
    const RequestId id = shortage_ ? stepper_->scheduler().stuck_request() : 0;
    if (id != 0) {
        stepper_->scheduler().cancel(id);
        const std::exception_ptr error = shortage_;  // with the last request it is over
        drop(Ending::failed, error);
    }
}

bool Core::should_stop(void * data) {
    auto & core = *static_cast<Core *>(data);
    const double now = now_ms();
    if (now - core.last_check_ms_ < stop_check_interval_ms) {
        return false;
    }
    core.last_check_ms_ = now;
    const auto is_cancelled = [](const RequestPtr & request) { return request->completion->is_cancelled(); };
    const std::vector<RequestPtr> & requests = core.computed_->requests;
    return core.mailbox_->is_closing() || std::all_of(requests.begin(), requests.end(), is_cancelled);
}

}  // namespace orin
