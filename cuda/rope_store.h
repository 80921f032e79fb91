// What comes between the projections and attention, in one launch: Q and K are normalised and turned by their
// positions, K and V are put into their cells.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kv_type.h"
#include "l2_prefetch.h"

namespace orin::cuda {

// Channels that turn together: i and i + 1, or i and i + n_dims / 2.
enum class RopePairs : int32_t { neighbours, halves };

// The rows of one projection.
struct HeadRows {
    const float * values;  // [n_tokens, heads, head_dim]
    int64_t token_stride;  // in floats
    int64_t head_stride;
    // Each head is x / √(mean of x² + eps) · norm before anything else.
    const float * norm;  // [head_dim], or null: it is x
    float eps;
};

// All pointers are of the device. What K and V are stored for is in k.values and v.values; where these are null (a
// layer that reads another one's cells) only Q is turned.
struct RopeStoreParams {
    int32_t n_tokens;
    int32_t n_head;
    int32_t n_head_kv;
    int32_t head_dim_k;
    int32_t head_dim_v;

    HeadRows q;
    HeadRows k;
    HeadRows v;
    float * q_out;  // [n_tokens, n_head, head_dim_k]; may be q.values if that lies as this
    float q_scale;  // of Q, once it is turned

    const int32_t * positions;  // [n_tokens]
    const float2 * table;       // [n_positions, n_dims / 2] cos and sin; a position outside gives NaN
    int32_t n_positions;
    uint32_t * n_outside;  // grows by 1 for each head of Q and K whose position is outside; null: nobody counts
    int32_t n_dims;        // channels of a head that turn, the first ones; 0: none
    RopePairs pairs;

    // After it, groups of this many channels are rotated by the orthonormal Walsh-Hadamard matrix: a power of two that
    // divides the head; 0: none.
    int32_t k_hadamard;  // Q and K
    int32_t v_hadamard;

    const int64_t * cells;  // [n_tokens]
    KvType k_type;
    KvType v_type;
    void * k_cells;       // [cells, n_head_kv, head_dim_k]
    void * v_cells;       // [cells, n_head_kv, head_dim_v]
    int64_t k_row_bytes;  // from cell to cell
    int64_t v_row_bytes;

    Prefetch prefetch;
};

// Whether sizes fit together and heads have at most 512 channels. Pointers may still be null, as when a graph is
// planned.
bool can_rope_store(const RopeStoreParams & params);

// Returns cudaErrorInvalidValue where that is not so.
cudaError_t rope_store(const RopeStoreParams & params, cudaStream_t stream);

}  // namespace orin::cuda
