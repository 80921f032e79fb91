// Draws a token from each row of logits by the rule of docs/sampling.md: the same tokens as cpp/sampling.
//
// All that changes from step to step is read from device memory, and three launches are queued whatever is in it: a
// captured graph stays valid. The host never waits, and nothing is allocated.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "../cpp/sampling/failure.h"
#include "../cpp/sampling/lane.h"

namespace orin::cuda {

struct SamplingParams {
    const float * logits;  // [n_rows, n_vocab], device; only read
    int64_t row_stride;    // of logits, in floats; at least n_vocab
    int32_t n_rows;
    int32_t n_vocab;

    const sampling::Lane * lanes;  // [n_rows], device, as is all that follows
    const int32_t * recent;        // [n_sequences, max_recent], in any order; what is no token (-1) counts as none
    int32_t max_recent;            // may be 0
    const sampling::Bias * bias;   // [n_sequences, max_bias], as sampling::group_bias() leaves them
    int32_t max_bias;              // may be 0
    const uint32_t * masks;        // [n_rows, (n_vocab + 31) / 32] as in cpp/sampling/params.h; null: no lane has one

    void * workspace;  // sampling_workspace_bytes(), aligned to 16; its content does not matter
    int32_t * tokens;  // [n_rows] out: a token or a sampling::Failure; not written for a lane without a sequence
};

// Natural logarithms of the softmax of the raw logits: see cpp/sampling/logprobs.h. The last bits may differ from
// there.
struct LogprobsParams {
    const float * logits;  // [n_rows, n_vocab], device, as is all that follows; only read
    int64_t row_stride;    // of logits, in floats; at least n_vocab
    int32_t n_rows;
    int32_t n_vocab;
    const sampling::Lane * lanes;  // [n_rows]
    const int32_t * tokens;        // [n_rows] as sample() has written them
    void * workspace;              // as for sample(), and may be the same
    // [n_rows, sampling::max_top_logprobs + 1] out: n_logprobs likeliest first, equal ones by id; then the row's token.
    // Nothing is written for a row that asks for none, or has a Failure.
    sampling::TokenLogprob * logprobs;
};

// Of sample() and of logprobs(): 12 bytes for each logit, and a little.
size_t sampling_workspace_bytes(int32_t n_rows, int32_t n_vocab);

// Both return cudaErrorInvalidValue for null pointers to what is not empty, for n_vocab < 1, for a row stride below it,
// and for more rows than a grid has (65535).
cudaError_t sample(const SamplingParams & params, cudaStream_t stream);
cudaError_t logprobs(const LogprobsParams & params, cudaStream_t stream);  // two launches

}  // namespace orin::cuda
