// llama.cpp's own sampler chain, for comparisons of speed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "../sampling/params.h"
#include "llama.h"

namespace orin {

// Penalties, top-k, top-p, min-p, temperature, draw, in that order; greedy at temperature 0.
class ChainProbe {
   public:
    ChainProbe(const sampling::Params & params, int32_t penalty_window, int32_t n_vocab);

    // Shows a token to the penalties.
    void see(int32_t token);
    // As llama_sampler_sample does it, except that the token is not shown to the penalties: a row can be sampled again.
    // logits: [n_vocab]
    int32_t sample(const float * logits);

   private:
    struct Free {
        void operator()(llama_sampler * sampler) const { llama_sampler_free(sampler); }
    };
    std::unique_ptr<llama_sampler, Free> chain_;
    std::vector<llama_token_data> candidates_;  // [n_vocab]
};

}  // namespace orin
