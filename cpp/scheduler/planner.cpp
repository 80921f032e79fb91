#include "planner.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace orin {

namespace {

double seniority_ms(const PlannerConfig & config, const RequestView & request) {
    return request.arrival_ms - request.priority * config.head_start_ms;
}

// Tokens that need not be computed: in cells already, or found there when the first chunk is placed.
int32_t n_covered(const RequestView & request) {
    return request.n_placed == 0 ? request.n_cached : request.n_placed;
}

int32_t n_left(const RequestView & request) {
    return request.n_known - n_covered(request);
}

}  // namespace

bool ends(const RequestView & request, double now_ms) {
    return request.cancelled || request.deadline_ms <= now_ms;
}

bool more_senior(const PlannerConfig & config, const RequestView & a, const RequestView & b) {
    const double a_ms = seniority_ms(config, a);
    const double b_ms = seniority_ms(config, b);
    return a_ms != b_ms ? a_ms < b_ms : a.id < b.id;
}

void check(const PlannerConfig & config) {
    const auto at_least = [](const char * name, int32_t value, int32_t low) {
        if (value < low) {
            throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) + ": it must be at least " +
                                        std::to_string(low));
        }
    };
    at_least("chunk_size", config.chunk_size, 1);
    at_least("max_batch", config.max_batch, 1);
    at_least("headroom_pages", config.headroom_pages, 0);
    at_least("max_overtakes", config.max_overtakes, 0);
    at_least("max_stall_steps", config.max_stall_steps, 0);
    at_least("tpot_divisor", config.tpot_divisor, 1);
    if (!(config.head_start_ms >= 0.0 && config.head_start_ms < std::numeric_limits<double>::infinity())) {
        throw std::invalid_argument("head_start_ms is " + std::to_string(config.head_start_ms) +
                                    ": it must be finite and at least 0");
    }
}

Planner::Planner(const PlannerConfig & config) : config_(config) {
    check(config);
}

const StepPlan & Planner::plan(const PlannerState & state) {
    plan_.clear();
    state_ = &state;
    pages_left_ = state.available_pages;
    sort_out_ended();
    preempt();
    if (plan_.preempt.empty()) {
        admit();
    }
    plan_decode();
    split_chunk();
    return plan_;
}

StepPlan plan_step(const PlannerConfig & config, const PlannerState & state) {
    return Planner(config).plan(state);
}

void Planner::sort_out_ended() {
    running_.clear();
    waiting_.clear();
    for (const RequestView & request : state_->requests) {
        if (ends(request, state_->now_ms)) {
            (request.cancelled ? plan_.drop : plan_.expire).push_back(request.id);
        } else {
            (request.phase == Phase::waiting ? waiting_ : running_).push_back(&request);
        }
    }
    std::sort(plan_.drop.begin(), plan_.drop.end());
    std::sort(plan_.expire.begin(), plan_.expire.end());
    const auto seniors_first = [this](const RequestView * a, const RequestView * b) {
        return more_senior(config_, *a, *b);
    };
    std::sort(running_.begin(), running_.end(), seniors_first);
    const size_t n_candidates = std::min(waiting_.size(), static_cast<size_t>(config_.max_batch));
    std::partial_sort(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(n_candidates), waiting_.end(),
                      seniors_first);
    waiting_.resize(n_candidates);
}

int32_t Planner::pages_for(int32_t n_tokens) const {
    return (n_tokens + state_->page_size - 1) / state_->page_size;
}

// Pages that the next write takes before it begins: cached ones that are idle, a copy of a shared one.
int32_t Planner::pages_to_begin(const RequestView & request) const {
    if (request.n_placed > 0) {
        return request.copies_page ? 1 : 0;
    }
    if (plan_.preempt.empty()) {
        return request.n_idle_pages;
    }
    // Those that were held may be idle now.
    const int32_t n_pages = pages_for(request.n_cached);
    return state_->window_pages == 0 ? n_pages : std::min(n_pages, state_->window_pages);
}

int32_t Planner::pages_to_place(const RequestView & request, int32_t n_tokens) const {
    if (n_tokens == 0) {
        return 0;
    }
    const int32_t covered = n_covered(request);
    return pages_for(covered + n_tokens) - pages_for(covered) + pages_to_begin(request);
}

// How many tokens can be placed in what is left of the last page and n_pages more.
int32_t Planner::tokens_in(const RequestView & request, int32_t n_pages) const {
    const int32_t covered = n_covered(request);
    const int32_t room_in_last = pages_for(covered) * state_->page_size - covered;
    const int32_t n_new = n_pages - pages_to_begin(request);
    return n_new < 0 ? 0 : room_in_last + n_new * state_->page_size;
}

int32_t Planner::chunk_size() const {
    if (config_.policy != Policy::tpot || plan_.decode.empty()) {
        return config_.chunk_size;
    }
    return std::min(config_.chunk_size, std::max(state_->page_size, config_.chunk_size / config_.tpot_divisor));
}

int32_t Planner::senior_share(int32_t chunk) const {
    const int32_t divisor = config_.policy == Policy::ttft ? 4 : 2;
    return (chunk + divisor - 1) / divisor;
}

// What a step takes at least: a token of every decoding request, and the seniors' share of the chunk.
int32_t Planner::pages_wanted() const {
    int32_t n_pages = 0;
    int32_t share = senior_share(config_.chunk_size);
    for (const RequestView * request : running_) {
        int32_t n_tokens = std::min(1, n_left(*request));
        if (request->phase == Phase::prefill) {
            n_tokens = std::min(share, n_left(*request));
            share -= n_tokens;
        }
        n_pages += pages_to_place(*request, n_tokens);
    }
    return n_pages;
}

void Planner::preempt() {
    while (running_.size() > 1 && pages_wanted() > pages_left_) {
        const RequestView * youngest = running_.back();
        running_.pop_back();
        plan_.preempt.push_back(youngest->id);
        pages_left_ += youngest->pages_given_back;
    }
}

// Pages that placing all known tokens takes; with a window, what it takes at a time.
int32_t Planner::pages_to_come(const RequestView & request) const {
    const int32_t n_pages = pages_to_place(request, n_left(request));
    if (state_->window_pages == 0) {
        return n_pages;
    }
    const int32_t not_held = std::max(0, state_->window_pages - pages_for(request.n_placed));
    return std::min(n_pages, not_held + pages_for(config_.chunk_size));
}

void Planner::admit() {
    int32_t unclaimed = pages_left_;
    for (const RequestView * request : running_) {
        unclaimed -= pages_to_come(*request) + config_.headroom_pages;
    }
    skipped_.clear();
    for (const RequestView * request : waiting_) {
        if (running_.size() == static_cast<size_t>(config_.max_batch)) {
            return;
        }
        const int32_t claim = pages_to_come(*request) + config_.headroom_pages;
        if (claim > unclaimed && !running_.empty()) {
            if (request->n_overtaken >= config_.max_overtakes) {
                return;
            }
            skipped_.push_back(request);
            continue;
        }
        unclaimed -= claim;
        plan_.admit.push_back(request->id);
        running_.push_back(request);
        bool blocked = false;
        for (const RequestView * passed : skipped_) {
            plan_.overtaken.push_back(passed->id);
            const auto times = std::count(plan_.overtaken.begin(), plan_.overtaken.end(), passed->id);
            blocked |= passed->n_overtaken + times >= config_.max_overtakes;
        }
        if (blocked) {
            return;
        }
    }
}

void Planner::plan_decode() {
    bool has_prompts = false;
    for (const RequestView * request : running_) {
        if (request->phase != Phase::decode) {
            has_prompts = true;
        } else if (n_left(*request) > 0) {
            const int32_t n_pages = pages_to_place(*request, 1);
            if (n_pages > pages_left_) {
                continue;  // it is alone, and does not fit
            }
            pages_left_ -= n_pages;
            plan_.decode.push_back(request->id);
        }
    }
    if (has_prompts && !plan_.decode.empty() && may_stall_decode()) {
        plan_.decode.clear();  // their pages stay reserved
        plan_.stalls_decode = true;
    }
}

// Not where requests wait for others to end, or soon will: to let those others run is what gets them their first token.
bool Planner::may_stall_decode() const {
    const bool none_waits = plan_.preempt.empty() && waiting_.size() == plan_.admit.size();
    return config_.policy == Policy::ttft && state_->stalled_steps < config_.max_stall_steps && none_waits &&
           running_.size() * 2 <= static_cast<size_t>(config_.max_batch);
}

void Planner::split_chunk() {
    prompts_.clear();
    by_length_.clear();
    for (const RequestView * request : running_) {
        if (request->phase != Phase::decode) {
            prompts_.push_back({request, n_left(*request), 0});
        }
    }
    // Those just admitted are behind others in running_ that they are more senior than.
    std::sort(prompts_.begin(), prompts_.end(),
              [this](const Candidate & a, const Candidate & b) { return more_senior(config_, *a.view, *b.view); });

    const int32_t chunk = chunk_size();
    int32_t share = senior_share(chunk);
    for (Candidate & prompt : prompts_) {
        const int32_t before = prompt.n_tokens;
        grant(prompt, share);
        share -= prompt.n_tokens - before;
        by_length_.push_back(&prompt);
    }
    std::sort(by_length_.begin(), by_length_.end(), [](const Candidate * a, const Candidate * b) {
        const int32_t a_tokens = a->n_left + a->n_tokens;
        const int32_t b_tokens = b->n_left + b->n_tokens;
        return a_tokens != b_tokens ? a_tokens < b_tokens : a < b;  // prompts_ is in order of seniority
    });
    int32_t rest = chunk - senior_share(chunk) + share;
    for (Candidate * prompt : by_length_) {
        const int32_t before = prompt->n_tokens;
        grant(*prompt, rest);
        rest -= prompt->n_tokens - before;
    }
    for (const Candidate & prompt : prompts_) {
        if (prompt.n_tokens > 0) {
            plan_.prefill.push_back({prompt.view->id, prompt.n_tokens, prompt.n_left == 0});
        }
    }
}

// Adds up to n_tokens to what the prompt gets, as far as its length and the pages allow.
void Planner::grant(Candidate & prompt, int32_t n_tokens) {
    const int32_t had = pages_to_place(*prompt.view, prompt.n_tokens);
    const int32_t most = tokens_in(*prompt.view, had + pages_left_) - prompt.n_tokens;
    const int32_t granted = std::min({n_tokens, prompt.n_left, most});
    prompt.n_tokens += granted;
    prompt.n_left -= granted;
    pages_left_ -= pages_to_place(*prompt.view, prompt.n_tokens) - had;
}

}  // namespace orin
