// Which requests a scheduler takes, and how small its pool may become under them.
#include <algorithm>
#include <string>

#include "scheduler.h"

namespace orin {

RequestId Scheduler::submit(const RequestParams & params, double now_ms) {
    check_fits(params);
    Request request;
    request.n_final = static_cast<int32_t>(params.prompt.size()) + params.max_tokens;
    request.tokens.reserve(static_cast<size_t>(request.n_final));
    request.tokens = params.prompt;
    request.runs_ahead = params.runs_ahead;
    RequestView view;
    view.id = next_id_;
    view.arrival_ms = now_ms;
    view.priority = params.priority;
    view.deadline_ms = params.deadline_ms;
    view.n_known = static_cast<int32_t>(params.prompt.size());
    requests_.push_back(std::move(request));
    state_.requests.push_back(view);
    counters_.submitted++;
    return next_id_++;
}

void Scheduler::check_fits(const RequestParams & params) const {
    if (params.prompt.empty()) {
        throw std::invalid_argument("the prompt is empty: at least one token is needed");
    }
    if (params.max_tokens < 1) {
        throw std::invalid_argument("max_tokens is " + std::to_string(params.max_tokens) + ": it must be at least 1");
    }
    const int64_t n_tokens = static_cast<int64_t>(params.prompt.size()) + params.max_tokens;
    const std::string found = "the prompt has " + std::to_string(params.prompt.size()) + " tokens and max_tokens is " +
                              std::to_string(params.max_tokens) + ", together " + std::to_string(n_tokens) + ": ";
    const std::string advice = "; shorten the prompt, ask for fewer tokens or raise the limit";
    if (n_tokens > kv_config_.max_tokens) {
        throw RequestTooLong(found + "a sequence holds at most " + std::to_string(kv_config_.max_tokens) + " tokens" +
                             advice);
    }
    const int32_t n_pages = pages_for_all_of(static_cast<int32_t>(n_tokens));
    if (n_pages > budget_) {
        throw RequestTooLong(found + "that takes " + std::to_string(n_pages) + " pages of " +
                             std::to_string(kv_config_.page_size) + " tokens, and the KV budget is " +
                             std::to_string(budget_) + " pages" + advice);
    }
}

// What a request of this length takes at most, once all its tokens are known.
int32_t Scheduler::pages_for_all_of(int32_t n_tokens) const {
    const int32_t n_pages = kv_config_.pages_for(n_tokens);
    if (state_.window_pages == 0) {
        return n_pages;
    }
    return std::min(n_pages, state_.window_pages + kv_config_.pages_for(planner_.config().chunk_size));
}

bool Scheduler::set_budget(int32_t n_pages) {
    for (const Request & request : requests_) {
        if (pages_for_all_of(request.n_final) > n_pages) {
            return false;
        }
    }
    if (!kv_.set_budget(n_pages)) {
        return false;
    }
    budget_ = n_pages;
    return true;
}

void Scheduler::limit_pages(int32_t n_pages) {
    if (!kv_.set_budget(std::min(n_pages, budget_))) {
        throw std::logic_error("more than " + std::to_string(n_pages) + " pages are in use");
    }
}

// Where requests had to give way, the next plan counts what they gave back anew.
RequestId Scheduler::stuck_request() const {
    const StepPlan & plan = last_plan();
    if (is_ahead() || !plan.preempt.empty() || !plan.decode.empty() || !plan.prefill.empty()) {
        return 0;
    }
    const auto & views = state_.requests;
    const auto holds_a_place = [](const RequestView & view) { return view.phase != Phase::waiting; };
    const auto found = std::find_if(views.begin(), views.end(), holds_a_place);
    return found == views.end() ? 0 : found->id;
}

}  // namespace orin
