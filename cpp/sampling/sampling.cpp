#include "sampling.h"

#include "rule.h"

namespace orin::sampling {
namespace {

// The candidates, or none where there is a failure.
Candidates select(Workspace & workspace, const Row & row, Failure & failure) {
    check(row, workspace.max_vocab);
    if (!workspace.logits.load(row)) {
        failure = bad_logits;
        return {};
    }
    if (workspace.logits.top_key() == 0) {
        failure = nothing_left;
        return {};
    }
    return workspace.selection.select(workspace.logits, row.params);
}

int32_t token_or_failure(Workspace & workspace, const Row & row) {
    Failure failure{};
    const Candidates candidates = select(workspace, row, failure);
    if (candidates.count == 0) {
        return failure;
    }
    return choose(candidates, random_words(row.params.seed, row.choice, row.position));
}

}  // namespace

int32_t sample_row(Workspace & workspace, const Row & row) {
    const int32_t token = token_or_failure(workspace, row);
    if (token < 0) {
        throw_failure(static_cast<Failure>(token), row);
    }
    return token;
}

void sample_rows(Workspace & workspace, const Row * rows, int32_t n_rows, int32_t * tokens) {
    for (int32_t i = 0; i < n_rows; ++i) {
        tokens[i] = token_or_failure(workspace, rows[i]);
    }
}

Candidates candidates_of(Workspace & workspace, const Row & row) {
    Failure failure{};
    const Candidates candidates = select(workspace, row, failure);
    if (candidates.count == 0) {
        throw_failure(failure, row);
    }
    return candidates;
}

int32_t choose(const Candidates & candidates, uint64_t words) {
    const uint64_t target = draw_target(words, candidates.total);
    uint64_t sum = 0;
    int32_t index = 0;
    while ((sum += candidates.weights[index]) <= target) {
        ++index;
    }
    return candidates.ids[index];
}

}  // namespace orin::sampling
