// What one row of logits is sampled with. Plain data, so that a device can hold tables of it.
#pragma once

#include <cstdint>

namespace orin::sampling {

enum class Order : int32_t {
    orin,   // the filters see the tempered distribution
    llama,  // the filters see the distribution at temperature 1, as in llama.cpp's default chain
};

struct Params {
    float temperature = 0.8f;  // 0: greedy
    int32_t top_k = 40;        // 0: all
    float top_p = 0.95f;       // 1: all
    float min_p = 0.05f;       // 0: all
    float repeat_penalty = 1.0f;
    float frequency_penalty = 0.0f;
    float presence_penalty = 0.0f;
    Order order = Order::orin;
    uint64_t seed = 0;
};

struct Bias {
    int32_t token;
    float value;  // below +inf; -inf forbids the token
};

struct Row {
    Params params;
    const float * logits = nullptr;  // [n_vocab]; -inf is allowed
    int32_t n_vocab = 0;
    int32_t n_recent = 0;
    const int32_t * recent = nullptr;  // [n_recent] the tokens that the penalties look at, in any order
    const Bias * bias = nullptr;       // [n_bias], added one after another
    int32_t n_bias = 0;
    uint32_t choice = 0;              // which of several answers to one request
    uint64_t position = 0;            // of the token to draw, in its sequence
    const uint32_t * mask = nullptr;  // [(n_vocab + 31) / 32], bit i % 32 of word i / 32: token i is allowed; null: all
};

struct TokenLogprob {
    int32_t token;
    float logprob;  // natural logarithm of the softmax over the whole vocabulary
};

}  // namespace orin::sampling
