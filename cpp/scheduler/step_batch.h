// What a step computes, as an engine needs it.
#pragma once

#include <cstdint>
#include <vector>

#include "../pages/paged_kv.h"
#include "planner_state.h"

namespace orin {

struct BatchRow {
    int32_t token;  // or unknown_token: drawn by the step before, still under way; the device takes it from there
    SequenceId sequence;
    int32_t position;
    int64_t cell;
    bool wants_logits;
};

// A row whose logits are sampled.
struct BatchOutput {
    int32_t row;
    RequestId request;
};

// Rows of one sequence are consecutive and in order of position. Decode rows come first, then the prompts; both in
// order of seniority, so that a request keeps its place while nothing else begins or ends.
struct StepBatch {
    std::vector<BatchRow> rows;
    int32_t n_decode_rows = 0;
    std::vector<BatchOutput> outputs;  // in order of rows
    std::vector<PageCopy> copies;      // to be done in this order, before any row is computed
};

}  // namespace orin
