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
    : kv_config_(checked(config, kv_config)), kv_(kv_config), planner_(config) {
    state_.page_size = kv_config.page_size;
    state_.window_pages = kv_config.window == 0 ? 0 : kv_config.pages_for(kv_config.window) + 1;
    batch_.rows.reserve(static_cast<size_t>(config.chunk_size) + static_cast<size_t>(config.max_batch));
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
    if (step_under_way_) {
        throw std::logic_error("a step is under way: finish it, or let it fail, before requests are dropped");
    }
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
    if (step_under_way_) {
        throw std::logic_error("a step is under way: finish it, or let it fail, before the next is planned");
    }
    batch_.rows.clear();
    batch_.outputs.clear();
    batch_.copies.clear();
    state_.now_ms = now_ms;
    release_ended();
    look_at_pool();
    const StepPlan & plan = planner_.plan(state_);
    state_.stalled_steps = plan.stalls_decode ? state_.stalled_steps + 1 : 0;
    apply(plan);
    step_under_way_ = !batch_.rows.empty();
    return batch_;
}

// Before the pool is looked at: what they shared with others may be idle then.
void Scheduler::release_ended() {
    for (size_t i = 0; i < requests_.size(); i++) {
        if (requests_[i].sequence >= 0 && ends(state_.requests[i], state_.now_ms)) {
            leave_pool(i);
        }
    }
}

void Scheduler::apply(const StepPlan & plan) {
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
        place(request, 1, true);
    }
    batch_.n_decode_rows = static_cast<int32_t>(batch_.rows.size());
    for (const PrefillPart & part : plan.prefill) {
        place(part.id, part.n_tokens, part.reaches_end);
    }
    batch_.copies = kv_.pending_copies();
    kv_.clear_copies();
}

void Scheduler::take_cached_prefix(size_t i) {
    RequestView & view = state_.requests[i];
    if (view.n_placed > 0) {
        return;
    }
    Request & request = requests_[i];
    view.n_placed = kv_.adopt_prefix(request.sequence, request.tokens.data(), view.n_known);
    request.n_reached = std::max(request.n_reached, view.n_placed);
    counters_.prefix_tokens_reused += view.n_placed;
}

void Scheduler::place(RequestId id, int32_t n_tokens, bool wants_logits) {
    const size_t i = find(id);
    Request & request = requests_[i];
    const int32_t first = state_.requests[i].n_placed;
    const size_t n_copies = kv_.pending_copies().size();
    if (!kv_.append(request.sequence, request.tokens.data() + first, n_tokens)) {
        throw std::logic_error("the plan takes more pages than the pool has: " + last_plan().to_string());
    }
    request.copied_page = kv_.pending_copies().size() > n_copies;
    for (int32_t position = first; position < first + n_tokens; position++) {
        batch_.rows.push_back({request.tokens[static_cast<size_t>(position)], request.sequence, position,
                               kv_.cell(request.sequence, position), false});
    }
    if (wants_logits) {
        batch_.rows.back().wants_logits = true;
        batch_.outputs.push_back({static_cast<int32_t>(batch_.rows.size()) - 1, id});
    }
}

const std::vector<RequestId> & Scheduler::finish_step(const std::vector<Sampled> & sampled) {
    if (!step_under_way_) {
        throw std::logic_error("no step is under way: plan one that has rows first");
    }
    if (sampled.size() != batch_.outputs.size()) {
        throw std::invalid_argument(std::to_string(sampled.size()) + " tokens for a step with " +
                                    std::to_string(batch_.outputs.size()) + " outputs");
    }
    step_under_way_ = false;
    counters_.steps++;
    for (const RequestId request : last_plan().decode) {
        commit(find(request), counters_.tokens_decoded);
    }
    for (const PrefillPart & part : last_plan().prefill) {
        commit(find(part.id), counters_.tokens_prefilled);
    }
    finished_.clear();
    for (size_t k = 0; k < sampled.size(); k++) {
        const RequestId id = batch_.outputs[k].request;
        const size_t i = find(id);
        requests_[i].tokens.push_back(sampled[k].token);
        state_.requests[i].n_known++;
        state_.requests[i].phase = Phase::decode;
        if (sampled[k].ends || state_.requests[i].n_known == requests_[i].n_final) {
            finished_.push_back(id);
        }
    }
    for (const RequestId request : finished_) {
        erase(request);
        counters_.finished++;
    }
    return finished_;
}

// Counts the tokens placed in this step into `first_time`, or as recomputed.
void Scheduler::commit(size_t i, int64_t & first_time) {
    Request & request = requests_[i];
    RequestView & view = state_.requests[i];
    const int32_t first = view.n_placed;
    kv_.commit(request.sequence);
    view.n_placed = kv_.n_tokens(request.sequence);
    const int32_t n_again = std::clamp(request.n_reached - first, 0, view.n_placed - first);
    counters_.tokens_recomputed += n_again;
    first_time += view.n_placed - first - n_again;
    request.n_reached = std::max(request.n_reached, view.n_placed);
}

void Scheduler::fail_step() {
    if (!step_under_way_) {
        throw std::logic_error("no step is under way: plan one that has rows first");
    }
    step_under_way_ = false;
    counters_.failed_steps++;
    for (const RequestId request : last_plan().decode) {
        undo(find(request));
    }
    for (const PrefillPart & part : last_plan().prefill) {
        undo(find(part.id));
    }
}

void Scheduler::undo(size_t i) {
    Request & request = requests_[i];
    RequestView & view = state_.requests[i];
    int32_t n_keep = view.n_placed;
    if (request.copied_page) {
        n_keep -= n_keep % kv_config_.page_size;  // whether the copy was made is not known
    }
    view.n_placed = kv_.truncate(request.sequence, n_keep);
    if (view.n_known - view.n_placed > 1) {
        view.phase = Phase::prefill;
    }
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
