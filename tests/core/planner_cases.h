// Random states of requests and pages, and what a planner can know of them.
#pragma once

#include <algorithm>
#include <vector>

#include "check.h"
#include "scheduler/planner.h"

namespace orin {

inline int32_t pages_for(const PlannerState & state, int32_t n) {
    return (n + state.page_size - 1) / state.page_size;
}

struct PlannerCase {
    PlannerConfig config;
    PlannerState state;
};

inline PlannerConfig random_planner_config(Random & random) {
    PlannerConfig config;
    config.policy = static_cast<Policy>(random.below(3));
    config.chunk_size = 1 + random.below(random.one_in(2) ? 20 : 600);
    config.max_batch = 1 + random.below(16);
    config.headroom_pages = random.below(3);
    config.max_overtakes = random.below(4);
    config.max_stall_steps = random.below(4);
    config.head_start_ms = random.below(3) * 10.0;
    return config;
}

inline RequestView random_request(Random & random, const PlannerState & state, bool may_run) {
    RequestView request;
    request.arrival_ms = random.below(50);
    request.priority = random.below(4) - 1;
    request.cancelled = random.one_in(12);
    if (random.one_in(6)) {
        request.deadline_ms = 98 + random.below(5);
    }
    request.n_known = 1 + random.below(random.one_in(3) ? 1000 : 60);
    request.n_overtaken = random.below(5);
    request.phase = may_run ? static_cast<Phase>(random.below(3)) : Phase::waiting;
    if (request.phase == Phase::decode) {
        request.n_known++;
        request.n_placed = request.n_known - (random.one_in(4) ? 0 : 1);  // 0: its last token is being drawn
    } else if (request.phase == Phase::prefill && !random.one_in(3)) {
        request.n_placed = random.below(request.n_known);
    }
    if (request.n_placed == 0 && random.one_in(2)) {
        const int32_t n_pages = random.below((request.n_known - 1) / state.page_size + 1);
        request.n_cached = n_pages * state.page_size;
        const int32_t in_window = state.window_pages == 0 ? n_pages : std::min(n_pages, state.window_pages);
        request.n_idle_pages = random.below(in_window + 1);
    }
    request.copies_page = request.n_placed % state.page_size != 0 && random.one_in(6);
    const int32_t n_pages = pages_for(state, request.n_placed);
    request.pages_given_back = random.one_in(3) ? random.below(n_pages + 1) : n_pages;
    return request;
}

// Those that do not end, most senior first.
inline std::vector<RequestView> remaining(const PlannerCase & c, bool waiting) {
    std::vector<RequestView> found;
    for (const RequestView & request : c.state.requests) {
        if (!ends(request, c.state.now_ms) && (request.phase == Phase::waiting) == waiting) {
            found.push_back(request);
        }
    }
    std::sort(found.begin(), found.end(),
              [&](const RequestView & a, const RequestView & b) { return more_senior(c.config, a, b); });
    return found;
}

inline int32_t tokens_left(const RequestView & request) {
    return request.n_known - (request.n_placed == 0 ? request.n_cached : request.n_placed);
}

// Pages that placing the next n tokens takes. After a preemption nobody may hold the cached ones any more.
inline int32_t pages_to_place(const PlannerState & state, const RequestView & request, int32_t n,
                              bool after_preemption) {
    const int32_t covered = request.n_known - tokens_left(request);
    int32_t n_pages = pages_for(state, covered + n) - pages_for(state, covered) + request.copies_page;
    if (request.n_placed == 0) {
        const int32_t n_cached = request.n_cached / state.page_size;
        const int32_t in_window = state.window_pages == 0 ? n_cached : std::min(n_cached, state.window_pages);
        n_pages += after_preemption ? in_window : request.n_idle_pages;
    }
    return n == 0 ? 0 : n_pages;
}

inline PlannerCase random_planner_case(Random & random) {
    PlannerCase c;
    c.config = random_planner_config(random);
    PlannerState & state = c.state;
    state.page_size = 1 << random.below(6);
    state.now_ms = 100.0;
    state.stalled_steps = random.below(5);
    state.window_pages = random.one_in(3) ? 1 + random.below(40) : 0;
    int32_t n_running = 0;
    int32_t given_back = 0;
    for (int32_t n = random.below(40); n > 0; n--) {
        RequestView request = random_request(random, state, n_running < c.config.max_batch);
        request.id = 1 + static_cast<RequestId>(state.requests.size());
        n_running += request.phase != Phase::waiting;
        given_back += ends(request, state.now_ms) ? 0 : request.pages_given_back;
        state.requests.push_back(request);
    }
    state.available_pages = random.below(random.one_in(3) ? 2000 : 30);
    // A request that is alone fits. What it has given back itself stays its own.
    for (const RequestView & request : state.requests) {
        const int32_t n_pages = pages_to_place(state, request, tokens_left(request), true);
        const int32_t missing = n_pages + request.pages_given_back - given_back;
        state.available_pages = std::max(state.available_pages, missing);
    }
    return c;
}

}  // namespace orin
