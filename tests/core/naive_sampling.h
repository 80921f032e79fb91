// The sampling rule written down without regard to speed: copies, full sorts, 128-bit sums. Shares with the
// implementation only the exponential and the random words, which have tests of their own.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "sampling/fixed_exp.h"
#include "sampling/params.h"
#include "sampling/sampling.h"

namespace orin {

struct NaiveCandidates {
    std::vector<int32_t> ids;  // ascending
    std::vector<uint32_t> weights;
};

inline std::vector<float> naive_logits(const sampling::Row & row) {
    const sampling::Params & params = row.params;
    std::vector<float> logits(row.logits, row.logits + row.n_vocab);
    for (int32_t token = 0; token < row.n_vocab; ++token) {
        const auto count = static_cast<float>(std::count(row.recent, row.recent + row.n_recent, token));
        float & logit = logits[size_t(token)];
        if (count > 0.0f) {
            logit = logit > 0.0f ? logit / params.repeat_penalty : logit * params.repeat_penalty;
            const float subtracted = count * params.frequency_penalty;
            logit = std::min(logit - (subtracted + params.presence_penalty), FLT_MAX);
        }
        for (int32_t i = 0; i < row.n_bias; ++i) {
            if (row.bias[i].token == token) {
                logit = std::min(logit + row.bias[i].value, FLT_MAX);
            }
        }
        if (row.mask != nullptr && (row.mask[token / 32] >> (token % 32) & 1) == 0) {
            logit = -std::numeric_limits<float>::infinity();
        }
    }
    return logits;
}

// PRECOND: some logit is left.
inline NaiveCandidates naive_candidates(const sampling::Row & row) {
    const sampling::Params & params = row.params;
    const std::vector<float> logits = naive_logits(row);
    std::vector<int32_t> ranked(logits.size());
    std::iota(ranked.begin(), ranked.end(), 0);
    std::stable_sort(ranked.begin(), ranked.end(),
                     [&](int32_t a, int32_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
    const float top = logits[size_t(ranked[0])];
    if (params.temperature == 0.0f) {
        return {{ranked[0]}, {sampling::full_weight}};
    }
    const auto weight = [&](int32_t token, float temperature) {
        const float below = logits[size_t(token)] - top;
        return sampling::fixed_exp(below / temperature);
    };
    const float filter_temperature = params.order == sampling::Order::orin ? params.temperature : 1.0f;

    if (params.top_k > 0 && size_t(params.top_k) < ranked.size()) {
        ranked.resize(size_t(params.top_k));
    }
    if (params.top_p < 1.0f) {
        using Wide = unsigned __int128;
        Wide total = 0;
        for (int32_t token : ranked) {
            total += weight(token, filter_temperature);
        }
        const Wide needed = static_cast<uint64_t>(std::ldexp(static_cast<double>(params.top_p), 32)) * total;
        Wide sum = 0;
        size_t kept = 0;
        do {
            sum += weight(ranked[kept++], filter_temperature);
        } while (kept < ranked.size() && (sum << 32) < needed);
        ranked.resize(kept);
    }
    NaiveCandidates result;
    std::sort(ranked.begin(), ranked.end());
    for (int32_t token : ranked) {
        const bool is_likely = weight(token, filter_temperature) >= static_cast<double>(params.min_p) * 0x1p30;
        const uint32_t drawn_with = weight(token, params.temperature);
        if (is_likely && drawn_with > 0) {
            result.ids.push_back(token);
            result.weights.push_back(drawn_with);
        }
    }
    return result;
}

inline int32_t naive_token(const NaiveCandidates & candidates, uint64_t words) {
    unsigned __int128 total = 0;
    for (uint32_t weight : candidates.weights) {
        total += weight;
    }
    const auto target = static_cast<uint64_t>(words * total >> 64);
    uint64_t sum = 0;
    size_t i = 0;
    while ((sum += candidates.weights[i]) <= target) {
        ++i;
    }
    return candidates.ids[i];
}

}  // namespace orin
