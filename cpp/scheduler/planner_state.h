// What the step planner is told: its settings and a plain view of every request. No pool, no clock.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace orin {

using RequestId = int64_t;

enum class Phase {
    waiting,  // holds no pages: new, or preempted
    prefill,  // admitted; known tokens are being placed, a chunk at a time
    decode,   // all known tokens but the last are placed; all, where what follows is to be seen first, or is the end
};

enum class Policy {
    balanced,  // decode tokens ride in every step
    ttft,      // prompts first: decode tokens stay out of steps with prompt tokens, for a while
    tpot,      // decode first: few prompt tokens a step while anything decodes
};

const char * to_string(Policy policy);

struct PlannerConfig {
    Policy policy = Policy::balanced;
    int32_t chunk_size = 512;       // prompt tokens a step, at most
    int32_t max_batch = 16;         // admitted requests at once
    int32_t headroom_pages = 1;     // kept free for each admitted request at an admission
    int32_t max_overtakes = 16;     // admissions of less senior requests that a waiting one has to bear
    int32_t max_stall_steps = 1;    // ttft: steps in a row without decode tokens
    int32_t tpot_divisor = 8;       // tpot: chunk_size is divided by this while anything decodes
    double head_start_ms = 2000.0;  // what one level of priority is worth
};

struct RequestView {
    RequestId id = 0;
    double arrival_ms = 0.0;
    int32_t priority = 0;
    double deadline_ms = std::numeric_limits<double>::infinity();  // of the same clock as now_ms
    bool cancelled = false;
    Phase phase = Phase::waiting;
    int32_t n_known = 0;           // tokens: prompt and generated; also one that is still being drawn
    int32_t n_placed = 0;          // of them, tokens that have a cell; those that are still being computed, too
    int32_t n_cached = 0;          // while none is placed: tokens that cached pages cover; the first chunk takes these
    int32_t n_idle_pages = 0;      // of these pages, those that count as available
    bool copies_page = false;      // the next write copies a shared page
    int32_t n_overtaken = 0;       // admissions of less senior requests while it waited
    int32_t pages_given_back = 0;  // by preempting it, after all less senior ones; may be left at 0 where the pages
                                   // available suffice for any step
};

struct PlannerState {
    std::vector<RequestView> requests;  // in any order; the plan does not depend on it
    double now_ms = 0.0;
    int32_t available_pages = 0;  // with those that requests which end give back
    int32_t page_size = 16;
    int32_t window_pages = 0;   // pages that attention looks back at, at most (sliding window); 0: all
    int32_t stalled_steps = 0;  // steps in a row, up to now, that left decode tokens out
};

}  // namespace orin
