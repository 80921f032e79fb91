// What a scheduler has done since it was made.
#pragma once

#include <cstdint>

namespace orin {

struct SchedulerCounters {
    // requests; submitted = finished + cancelled + expired + those still there
    int64_t submitted;
    int64_t finished;
    int64_t cancelled;
    int64_t expired;
    int64_t admitted;  // a request is admitted once more after every preemption
    int64_t preempted;
    // steps with work in them
    int64_t steps;
    int64_t failed_steps;
    // tokens computed, in steps that did not fail: the sum of these three
    int64_t tokens_prefilled;   // in a prompt's phase of prefill, for the first time
    int64_t tokens_recomputed;  // that the request had had in cells before
    int64_t tokens_decoded;
    // tokens not computed, for cached pages held them; those a request had itself before a preemption included
    int64_t prefix_tokens_reused;
};

}  // namespace orin
