// K and V of a sequence from its pages to one contiguous piece of f16: what llama.cpp's flash attention reads.
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

struct KvGatherParams {
    PagedKv kv;
    int32_t row;  // of the block tables
    int32_t begin;
    int32_t end;  // behind the last position
    // At least end - begin. What lies behind is filled with zeros: flash attention is fastest with a multiple of 256,
    // and reads V also where its mask hides it.
    int32_t n_positions;
    GatheredRows k;
    GatheredRows v;
};

// Values beyond the largest f16 (of bf16 and quantized rows) become infinite.
// Returns cudaErrorInvalidValue for what is not covered. PRECOND: the sequence has a page for every position.
cudaError_t kv_gather(const KvGatherParams & params, cudaStream_t stream);

}  // namespace orin::cuda
