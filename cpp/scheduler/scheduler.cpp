#include "scheduler.h"

#include <algorithm>
#include <cstddef>
#include <string>

namespace orin {

namespace {

const PagedKvConfig & checked(const PlannerConfig & config, const PagedKvConfig & kv_config) {
    check(config);
    if (kv_config.max_sequences < config.max_batch) {
        throw std::invalid_argument("max_sequences is " + std::to_string(kv_config.max_sequences) +
                                    ": it must be at least max_batch, " + std::to_string(config.max_batch));
    }
    return kv_config;
}

}  // namespace

Scheduler::Scheduler(const PlannerConfig & config, const PagedKvConfig & kv_config)
    : kv_config_(checked(config, kv_config)), kv_(kv_config), planner_(config), budget_(kv_config.n_pages - 1) {
    state_.page_size = kv_config.page_size;
    state_.window_pages = kv_config.window == 0 ? 0 : kv_config.pages_for(kv_config.window) + 1;
    for (Step & step : steps_) {
        step.batch.rows.reserve(static_cast<size_t>(config.chunk_size) + static_cast<size_t>(config.max_batch));
    }
    n_holders_.reserve(static_cast<size_t>(kv_config.n_pages));
}

int32_t Scheduler::n_running() const {
    const auto & views = state_.requests;
    const auto runs = [](const RequestView & view) { return view.phase != Phase::waiting; };
    return static_cast<int32_t>(std::count_if(views.begin(), views.end(), runs));
}

bool Scheduler::cancel(RequestId request) {
    const size_t i = find(request);
    if (i == requests_.size()) {
        return false;
    }
    state_.requests[i].cancelled = true;
    return true;
}

const std::vector<RequestId> & Scheduler::drop_cancelled() {
    dropped_.clear();
    for (const RequestView & view : state_.requests) {
        if (view.cancelled) {
            dropped_.push_back(view.id);
        }
    }
    for (const RequestId request : dropped_) {
        erase(request);
        counters_.cancelled++;
    }
    return dropped_;
}

const StepBatch & Scheduler::plan(double now_ms) {
    if (n_under_way_ == 2) {
        throw std::logic_error("two steps are under way: finish one, or let it fail, before the next is planned");
    }
    Step & step = steps_[static_cast<size_t>((oldest_ + n_under_way_) % 2)];
    step.clear();
    state_.now_ms = now_ms;
    if (is_ahead() && someone_ends()) {
        planner_.clear();
        return step.batch;
    }
    release_ended();
    look_at_pool();
    const StepPlan & plan = planner_.plan(state_);
    if (is_ahead() && !plan.preempt.empty()) {
        planner_.clear();
        return step.batch;
    }
    state_.stalled_steps = plan.stalls_decode ? state_.stalled_steps + 1 : 0;
    apply(plan, step);
    n_under_way_ += !step.batch.rows.empty();
    return step.batch;
}

bool Scheduler::someone_ends() const {
    const auto & views = state_.requests;
    return std::any_of(views.begin(), views.end(),
                       [this](const RequestView & view) { return ends(view, state_.now_ms); });
}

// Before the pool is looked at: what they shared with others may be idle then.
void Scheduler::release_ended() {
    for (size_t i = 0; i < requests_.size(); i++) {
        if (requests_[i].sequence >= 0 && ends(state_.requests[i], state_.now_ms)) {
            leave_pool(i);
        }
    }
}

void Scheduler::apply(const StepPlan & plan, Step & step) {
    for (const RequestId request : plan.drop) {
        erase(request);
        counters_.cancelled++;
    }
    for (const RequestId request : plan.expire) {
        erase(request);
        counters_.expired++;
    }
    for (const RequestId request : plan.preempt) {
        leave_pool(find(request));
        counters_.preempted++;
    }
    for (const RequestId request : plan.overtaken) {
        state_.requests[find(request)].n_overtaken++;
    }
    for (const RequestId request : plan.admit) {
        const size_t i = find(request);
        requests_[i].sequence = kv_.open();
        state_.requests[i].phase = Phase::prefill;
        counters_.admitted++;
    }
    // All cached pages that the plan counts on are taken before any other is: that may evict cached ones.
    for (const PrefillPart & part : plan.prefill) {
        take_cached_prefix(find(part.id));
    }
    for (const RequestId request : plan.decode) {
        place(step, request, 1, true);
    }
    step.batch.n_decode_rows = static_cast<int32_t>(step.batch.rows.size());
    for (const PrefillPart & part : plan.prefill) {
        place(step, part.id, part.n_tokens, part.reaches_end);
    }
    step.batch.copies = kv_.pending_copies();
    kv_.clear_copies();
}

const std::vector<int32_t> & Scheduler::tokens(RequestId request) const {
    const size_t i = find(request);
    if (i == requests_.size()) {
        throw std::out_of_range("there is no request " + std::to_string(request) + " (any more)");
    }
    return requests_[i].tokens;
}

size_t Scheduler::find(RequestId request) const {
    const auto & views = state_.requests;
    const auto found = std::lower_bound(views.begin(), views.end(), request,
                                        [](const RequestView & view, RequestId id) { return view.id < id; });
    const bool is_there = found != views.end() && found->id == request;
    return static_cast<size_t>((is_there ? found : views.end()) - views.begin());
}

void Scheduler::leave_pool(size_t i) {
    kv_.close(requests_[i].sequence);
    requests_[i].sequence = -1;
    state_.requests[i].phase = Phase::waiting;
    state_.requests[i].n_placed = 0;
}

void Scheduler::erase(RequestId request) {
    const size_t i = find(request);
    if (requests_[i].sequence >= 0) {
        leave_pool(i);
    }
    requests_.erase(requests_.begin() + static_cast<ptrdiff_t>(i));
    state_.requests.erase(state_.requests.begin() + static_cast<ptrdiff_t>(i));
}

}  // namespace orin
