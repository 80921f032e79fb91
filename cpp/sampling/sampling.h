// Draws a token from a row of logits. docs/sampling.md states the rule exactly; in short:
//
//   penalties → logit bias → mask → [temperature] → top-k → top-p → min-p → [temperature] → draw
//
// (the first place of the temperature is Order::orin, the second Order::llama). Float arithmetic is binary32, each
// operation rounded; weights are integers, so that sums do not depend on their order; tokens rank by logit, largest
// first, equal ones by id, lowest first. The same row, seed, choice and position give the same token on any device.
#pragma once

#include <cstdint>

#include "adjusted_logits.h"
#include "check.h"
#include "params.h"
#include "philox.h"
#include "selection.h"

namespace orin::sampling {

// Memory for one row at a time, of at most n_vocab logits; sampling allocates nothing. One thread at a time.
struct Workspace {
    // PRECOND: n_vocab is at least 1.
    explicit Workspace(int32_t n_vocab) : max_vocab(n_vocab), logits(n_vocab), selection(n_vocab) {}

    const int32_t max_vocab;
    AdjustedLogits logits;
    Selection selection;
};

// All throw RowError for a row that is not valid (see check.h).

// The token drawn. Throws SamplingError where there is none.
int32_t sample_row(Workspace & workspace, const Row & row);

// tokens: [n_rows], each a token or a Failure, so that one bad row leaves the others alone.
void sample_rows(Workspace & workspace, const Row * rows, int32_t n_rows, int32_t * tokens);

// What the row's draw chooses from. Lives as long as the workspace is not used again. Throws as sample_row does.
Candidates candidates_of(Workspace & workspace, const Row & row);

// The token that random words choose: the first in order of ids whose weights up to it exceed (words · total) / 2^64.
int32_t choose(const Candidates & candidates, uint64_t words);

}  // namespace orin::sampling
