// What an engine has done, and each of its last steps.
#pragma once

#include <cstdint>

#include "../pages/page_counters.h"
#include "../scheduler/scheduler_counters.h"
#include "numbered_log.h"

namespace orin {

struct PhaseTimes {
    double plan_ms = 0.0;      // choosing what a step computes, and what follows from its tokens
    double upload_ms = 0.0;    // bringing it into llama.cpp's form
    double prefill_ms = 0.0;   // llama.cpp's computation of steps with prompt tokens
    double decode_ms = 0.0;    // and of the others
    double sampling_ms = 0.0;  // drawing tokens, log-probabilities included
    double publish_ms = 0.0;   // handing them out
};

struct EngineStats {
    int64_t running = 0;  // requests now
    int64_t waiting = 0;
    int64_t max_lanes = 0;  // that can run at once
    // Since the start. The scheduler counts these as cancelled or finished, too, but for those that it refused and
    // those that were there when the engine was closed.
    int64_t failed = 0;
    int64_t prefill_steps = 0;
    int64_t decode_steps = 0;
    int64_t found_tokens = 0;  // of prompts, that were not computed although the page pool did not know them
    int64_t graphs_built = 0;
    PhaseTimes times;
    SchedulerCounters scheduler{};
    PageCounters pages{};
    int32_t page_size = 0;
    int64_t page_bytes = 0;  // 0: nothing is paged
    int64_t committed_bytes = 0;
    int64_t bytes_after_prefill = 0;  // of used pages, after the last step of this phase
    int64_t bytes_after_decode = 0;
};

struct StepRecord {
    int64_t number;  // from 1
    double started_ms;
    double duration_ms;
    double compute_ms;
    double sampling_ms;
    int32_t n_prompt_tokens;
    int32_t n_decode_tokens;
    int64_t kv_tokens;  // in used pages
    int64_t kv_bytes_used;
    int64_t kv_bytes_committed;
    int64_t kv_lookups;    // as PageCounters has them; 0 where nothing is paged
    int64_t kv_misses;     // of them
    int64_t kv_evictions;  // since the step before was planned
    int64_t preemptions;   // likewise
    double publish_ms;     // from the drawn tokens to the end: what follows from them, and handing them out
};

using StepLog = NumberedLog<StepRecord, 4096>;

}  // namespace orin
