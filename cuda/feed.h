// Tokens that stay on the device: what one step draws is what the next one computes, and what penalties look at.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "sampling.h"

namespace orin::cuda {

struct FeedParams {
    const int32_t * given;       // [n_tokens], device, as is all that follows
    const int32_t * sequences;   // [n_tokens] whose last drawn token is taken; -1: the one that is given
    const int32_t * last_drawn;  // [n_sequences] as publish() leaves it
    int32_t * tokens;  // [n_tokens] out; where no token could be drawn, 0: whoever collects it ends the answer
    int32_t n_tokens;
};

struct PublishParams {
    const sampling::Lane * lanes;  // [n_rows], device, as is all that follows
    const int32_t * tokens;  // [n_rows] as sample() has written them; those of lanes without a sequence are left out
    int32_t * last_drawn;    // [n_sequences] in and out: a token or a sampling::Failure
    int32_t * recent;        // [n_sequences, max_recent] in and out: written at the lanes' recent_slot
    int32_t max_recent;      // may be 0: no lane has a slot
    int32_t n_rows;
};

// One launch each. Both return cudaErrorInvalidValue for a negative size, and for null pointers to what is not empty.
cudaError_t feed(const FeedParams & params, cudaStream_t stream);
cudaError_t publish(const PublishParams & params, cudaStream_t stream);

}  // namespace orin::cuda
