#include "logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fixed_exp.h"

namespace orin::sampling {
namespace {

// Lower ones add nothing to a sum that has a 1 in it.
constexpr float least_argument = -87.0f;

double log_sum_exp(const AdjustedLogits & logits) {
    const float top = logit_of(logits.top_key());
    double sums[8] = {};
    for (int32_t index = 0; index < logits.n_blocks(); ++index) {
        const float * block = logits.block(index);
        for (int32_t i = 0; i < AdjustedLogits::block_size; i += 8) {
            for (int32_t lane = 0; lane < 8; ++lane) {
                const float argument = block[i + lane] - top;
                sums[lane] += scaled_exp(argument < least_argument ? least_argument : argument, 0);
            }
        }
    }
    return static_cast<double>(top) + std::log(std::accumulate(sums, sums + 8, 0.0));
}

}  // namespace

int32_t top_logprobs(Workspace & workspace, const float * logits, int32_t n_vocab, int32_t n, int32_t chosen,
                     TokenLogprob * result) {
    Row row;
    row.logits = logits;
    row.n_vocab = n_vocab;
    row.recent = &chosen;  // only to have it checked: the penalties are off
    row.n_recent = 1;
    check(row, workspace.max_vocab);
    if (!workspace.logits.load(row)) {
        throw_failure(bad_logits, row);
    }
    if (workspace.logits.top_key() == 0) {
        throw_failure(nothing_left, row);
    }
    const double log_sum = log_sum_exp(workspace.logits);
    const auto logprob = [&](int32_t token) {
        return TokenLogprob{token, static_cast<float>(static_cast<double>(logits[token]) - log_sum)};
    };
    n = std::clamp(n, 0, n_vocab);
    if (n > 0) {
        const int32_t * likeliest = workspace.selection.largest(workspace.logits, n);
        std::transform(likeliest, likeliest + n, result, logprob);
    }
    result[n] = logprob(chosen);
    return n + 1;
}

std::vector<TokenLogprob> top_logprobs(Workspace & workspace, const float * logits, int32_t n_vocab, int32_t n,
                                       int32_t chosen) {
    std::vector<TokenLogprob> result(static_cast<size_t>(std::clamp(n, 0, n_vocab)) + 1);
    top_logprobs(workspace, logits, n_vocab, n, chosen, result.data());
    return result;
}

}  // namespace orin::sampling
