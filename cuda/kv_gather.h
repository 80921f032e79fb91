// K and V of sequences from their pages to one contiguous piece of f16, and the mask that says who may look at what:
// what llama.cpp's flash attention reads.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "paged_kv.h"

namespace orin::cuda {

// f16 [n_positions, n_head_kv, head_dim]: aligned to 16 bytes, as are its strides.
struct GatheredRows {
    void * halves;
    int64_t position_stride;  // in halves
    int64_t head_stride;
};

// Positions begin … end - 1 of a row of the block tables are gathered to `place` and what follows it.
struct KvSegment {
    int32_t place;
    int32_t row;
    int32_t begin;
    int32_t end;
};

// [n], of the device, by place; what is not needed has a place behind all positions. PRECOND: they do not overlap;
// place and begin are multiples of kv_min_page_size, so that a warp's positions lie in one page.
struct KvSegments {
    const KvSegment * segments;
    int32_t n;
};

struct KvGatherParams {
    PagedKv kv;
    KvSegments from;
    // What no segment fills is zeros: flash attention is fastest with a multiple of 256, and reads V also where its
    // mask hides it. A multiple of kv_min_page_size.
    int32_t n_positions;
    GatheredRows k;
    GatheredRows v;
};

struct KvMaskParams {
    KvSegments from;
    int32_t n_positions;
    int32_t n_tokens;
    const int32_t * rows;       // [n_tokens], of the block tables
    const int32_t * positions;  // [n_tokens]; below 0: sees nothing
    int32_t window;             // positions that a token sees, its own the last one; 0: all up to it
    void * halves;              // f16 [n_tokens, n_positions] out: 0, or -infinity for what a token does not see
};

// Launches depend on sizes alone. Both return cudaErrorInvalidValue for what is not covered.

// Values beyond the largest f16 (of bf16 and quantized rows) become infinite. PRECOND: there is a page for every
// position of a segment.
cudaError_t kv_gather(const KvGatherParams & params, cudaStream_t stream);
cudaError_t kv_mask(const KvMaskParams & params, cudaStream_t stream);

}  // namespace orin::cuda
