// How a row of logits is sampled on a GPU: plain data that goes there in every step. What is larger stays there, in
// tables with a row for each sequence.
#pragma once

#include <algorithm>
#include <cstdint>

#include "params.h"

namespace orin::sampling {

constexpr int32_t max_top_logprobs = 20;

// PRECOND: `params` is as check.h has it.
struct Lane {
    Params params;
    uint64_t position;    // of the token to draw, in its sequence
    uint32_t choice;      // which of several answers to one request
    int32_t sequence;     // its row of the tables; -1: nobody wants the row's token, and none is drawn
    int32_t n_recent;     // at most what the table has room for
    int32_t recent_slot;  // where the drawn token goes among the recent ones; -1: nowhere
    int32_t n_bias;       // at most what the table has room for
    int32_t is_masked;    // 0: the lane's mask is not read
    int32_t n_logprobs;   // how many of the likeliest: at most max_top_logprobs and n_vocab; -1: no log-probabilities
};

// Brings the biases of a token together, in the order that they have: as the table has them.
inline void group_bias(Bias * bias, int32_t n_bias) {
    std::stable_sort(bias, bias + n_bias, [](const Bias & a, const Bias & b) { return a.token < b.token; });
}

}  // namespace orin::sampling
