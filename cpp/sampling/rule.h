// The steps of the sampling rule (docs/sampling.md) that are arithmetic alone.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "device.h"
#include "fixed_exp.h"
#include "params.h"

namespace orin::sampling {

// A sum or quotient beyond the largest finite number counts as that number.
ORIN_HOST_DEVICE inline float saturated(float logit) {
    return logit < FLT_MAX ? logit : FLT_MAX;
}

// count: how often the token is among the recent ones, at least once.
ORIN_HOST_DEVICE inline float penalized(float logit, uint32_t count, const Params & params) {
    const float repeated =
        logit > 0.0f ? quotient(logit, params.repeat_penalty) : product(logit, params.repeat_penalty);
    return saturated(repeated -
                     (product(static_cast<float>(count), params.frequency_penalty) + params.presence_penalty));
}

ORIN_HOST_DEVICE inline float biased(float logit, float value) {
    return saturated(logit + value);
}

ORIN_HOST_DEVICE inline bool has_penalties(const Params & params) {
    return params.repeat_penalty != 1.0f || params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f;
}

// The temperature that the filters see.
ORIN_HOST_DEVICE inline float filter_temperature(const Params & params) {
    return params.order == Order::orin ? params.temperature : 1.0f;
}

// top: the row's largest logit.
ORIN_HOST_DEVICE inline uint32_t weight_of(float logit, float top, float temperature) {
    return fixed_exp(quotient(logit - top, temperature));
}

// What top-p's sum has to reach: p · total, rounded up. p is taken as p · 2^32 without its fraction.
ORIN_HOST_DEVICE inline uint64_t share(float p, uint64_t total) {
    const auto fixed = static_cast<uint64_t>(static_cast<double>(p) * 0x1p32);
    const auto scaled = static_cast<unsigned __int128>(fixed) * total;
    return static_cast<uint64_t>((scaled + 0xffffffffu) >> 32);
}

// The least weight that min-p keeps.
ORIN_HOST_DEVICE inline uint32_t least_weight(float min_p) {
    return static_cast<uint32_t>(std::ceil(static_cast<double>(min_p) * full_weight));
}

// What the sum of weights has to exceed for a token to be drawn.
ORIN_HOST_DEVICE inline uint64_t draw_target(uint64_t words, uint64_t total) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(words) * total >> 64);
}

}  // namespace orin::sampling
