// Draws a token from logits with llama.cpp's sampler chain: penalties, bias, top-k, top-p, min-p, temperature, draw.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "llama.h"

namespace orin {

struct SamplingParams {
    float temperature = 0.8f;  // 0: greedy
    int32_t top_k = 40;        // 0: all
    float top_p = 0.95f;
    float min_p = 0.05f;
    float repeat_penalty = 1.0f;
    float frequency_penalty = 0.0f;
    float presence_penalty = 0.0f;
    int32_t penalty_window = 64;  // tokens; 0: none
    uint32_t seed = 0;
    std::vector<std::pair<int32_t, float>> logit_bias;
};

class Sampler {
   public:
    Sampler(const SamplingParams & params, int32_t n_vocab);

    // Shows a token of the prompt to the penalties.
    void see(int32_t token);
    // logits: [n_vocab]. The chosen token is shown to the penalties too.
    int32_t sample(const float * logits);

   private:
    struct Free {
        void operator()(llama_sampler * sampler) const { llama_sampler_free(sampler); }
    };
    std::unique_ptr<llama_sampler, Free> chain_;  // empty: plain greedy
    std::vector<llama_token_data> candidates_;    // [n_vocab]
    int32_t n_vocab_;
};

struct TokenLogprob {
    int32_t token;
    float logprob;  // natural logarithm of the softmax over the whole vocabulary
};

// The n likeliest tokens, likeliest first, and then `chosen` itself (always last, even when it is among the n).
std::vector<TokenLogprob> top_logprobs(const float * logits, int32_t n_vocab, int32_t n, int32_t chosen);

}  // namespace orin
