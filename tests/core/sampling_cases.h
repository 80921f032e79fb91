// Rows of logits of many shapes, and parameters at their edges and between.
#pragma once

#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "check.h"
#include "sampling/params.h"

namespace orin {

// Owns what a Row points to.
struct Case {
    std::vector<float> logits;
    std::vector<int32_t> recent;
    std::vector<sampling::Bias> bias;
    std::vector<uint32_t> mask;  // empty: none
    sampling::Row row;
};

inline float uniform(Random & random) {
    return static_cast<float>(random.below(1 << 24)) * 0x1p-24f;
}

inline std::vector<float> random_logits(Random & random, int32_t n_vocab) {
    constexpr float forbidden = -std::numeric_limits<float>::infinity();
    std::vector<float> logits(size_t(n_vocab), 0.0f);
    const int32_t shape = random.below(11);
    const float spread = std::ldexp(1.0f, random.below(12) - 6);
    for (int32_t i = 0; i < n_vocab; ++i) {
        float & logit = logits[size_t(i)];
        const float u = uniform(random);
        switch (shape) {
            case 0:
                logit = spread;
                break;  // all equal
            case 1:
                logit = static_cast<float>(random.below(2)) * spread;
                break;  // two values
            case 2:
                logit = static_cast<float>(i) * spread / 64;
                break;  // rising
            case 3:
                logit = -static_cast<float>(i) * spread / 64;
                break;  // falling
            case 4:
                logit = std::floor(u * 8) * spread;
                break;  // many ties
            case 5:
                logit = random.one_in(8) ? u * spread : forbidden;
                break;  // few allowed
            case 6:
                logit = random.one_in(2) ? 0.0f : -0.0f;
                break;
            case 7:
                logit = (random.one_in(2) ? 1.0f : -1.0f) * u * FLT_MAX;
                break;  // differences overflow
            case 8:
                logit = random.one_in(50) ? 20.0f + 4 * u : 8 * u;
                break;  // peaked
            case 9:
                logit = 1.0f + u * 0x1p-20f;
                break;  // neighbours
            default:
                logit = (uniform(random) + u - 1.0f) * spread * 4;
                break;
        }
    }
    return logits;
}

inline float random_edge(Random & random, std::vector<float> edges) {
    return random.one_in(2) ? edges[size_t(random.below(static_cast<int32_t>(edges.size())))] : uniform(random);
}

inline sampling::Params random_params(Random & random, int32_t n_vocab) {
    sampling::Params params;
    params.temperature = random_edge(random, {0.0f, 1.0f, 0.8f, 2.0f, 1e-6f, 1e-45f, 100.0f, FLT_MAX});
    const std::vector<int32_t> ks = {0, 1, 2, 40, n_vocab - 1, n_vocab, n_vocab + 1, INT32_MAX};
    params.top_k = random.one_in(2) ? std::max(0, ks[size_t(random.below(8))]) : random.below(n_vocab + 2);
    params.top_p = random_edge(random, {0.0f, 1.0f, 1.0f, 0.95f, 0.5f, 0.999999f, 1e-30f});
    params.min_p = random_edge(random, {0.0f, 0.0f, 0.05f, 1.0f, 1e-30f, 1e-9f});
    if (random.one_in(2)) {
        params.repeat_penalty = random_edge(random, {1.0f, 1.1f, 100.0f, 1e-38f}) + 1e-38f;
        params.frequency_penalty = random_edge(random, {0.0f, 0.0f, -2.0f, 100.0f});
        params.presence_penalty = random_edge(random, {0.0f, 0.0f, -2.0f, 100.0f});
    }
    params.order = random.one_in(2) ? sampling::Order::orin : sampling::Order::llama;
    params.seed = static_cast<uint64_t>(random.below(INT32_MAX)) << 33 ^ static_cast<uint64_t>(random.below(INT32_MAX));
    return params;
}

inline std::vector<uint32_t> random_mask(Random & random, int32_t n_vocab) {
    std::vector<uint32_t> mask(size_t(n_vocab + 31) / 32);
    const int32_t kind = random.below(4);
    for (uint32_t & word : mask) {
        const uint32_t bits = static_cast<uint32_t>(random.below(INT32_MAX)) * 2654435761u;
        word = kind == 0 ? ~0u : kind == 1 ? bits : random.one_in(kind == 2 ? 20 : 2) ? bits : kind == 2 ? 0 : ~0u;
    }
    return mask;
}

inline Case random_case(Random & random, int32_t n_vocab) {
    Case made;
    made.logits = random_logits(random, n_vocab);
    made.recent.resize(size_t(random.below(80)));
    const int32_t n_different = std::min(n_vocab, 1 + random.below(100));
    for (int32_t & token : made.recent) {
        token = random.below(n_different);
    }
    made.bias.resize(random.one_in(2) ? size_t(random.below(6)) : 0);
    for (sampling::Bias & bias : made.bias) {
        bias = {random.below(n_vocab),
                random_edge(random, {-std::numeric_limits<float>::infinity(), FLT_MAX, -FLT_MAX, 5.0f, -100.0f})};
    }
    if (random.one_in(2)) {
        made.mask = random_mask(random, n_vocab);
    }
    made.row.params = random_params(random, n_vocab);
    made.row.n_vocab = n_vocab;
    made.row.n_recent = static_cast<int32_t>(made.recent.size());
    made.row.n_bias = static_cast<int32_t>(made.bias.size());
    made.row.choice = static_cast<uint32_t>(random.below(4));
    made.row.position = static_cast<uint64_t>(random.below(INT32_MAX)) << random.below(33);
    return made;
}

// The row of a case that stays where it is.
inline sampling::Row row_of(const Case & made) {
    sampling::Row row = made.row;
    row.logits = made.logits.data();
    row.recent = made.recent.data();
    row.bias = made.bias.data();
    row.mask = made.mask.empty() ? nullptr : made.mask.data();
    return row;
}

}  // namespace orin
