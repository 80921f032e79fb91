// Log-probabilities of the model itself: of the raw logits, before penalties, bias, mask and temperature.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling.h"

namespace orin::sampling {

// The n likeliest tokens (all of them where there are fewer), likeliest first, equal ones by id, and then `chosen`
// itself, always last, even when it is among the n. Returns how many were written: at most n + 1.
// result: [n + 1]. Throws as sample_row does.
int32_t top_logprobs(Workspace & workspace, const float * logits, int32_t n_vocab, int32_t n, int32_t chosen,
                     TokenLogprob * result);
std::vector<TokenLogprob> top_logprobs(Workspace & workspace, const float * logits, int32_t n_vocab, int32_t n,
                                       int32_t chosen);

}  // namespace orin::sampling
