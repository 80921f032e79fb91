// Causal attention of a step's query tokens over K and V in pages.
//
// For a query token at position p of a sequence, and each of its heads:
//
//   out = Σ weight(t) · V(t) / Σ weight(t),  t = 0 … p, or p - window + 1 … p
//   weight(t) = e^score(t),  score(t) = scale · q·K(t), or softcap · tanh(scale · q·K(t) / softcap)
//
// With a sink, e^sink is added to the sum of the weights. Only cells of attended positions are read. Everything but K
// and V as they are stored is float32. A token without a sequence (position < 0) gets zeros.
//
// The launch depends on numbers of tokens, heads and splits only, never on positions: a captured graph stays valid as
// contexts grow. The same arguments give the same bits.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "activation_rows.h"
#include "paged_kv.h"

namespace orin::cuda {

constexpr int32_t attention_max_splits = 64;

// How scores and sums are computed.
enum class AttentionForm : int32_t {
    fastest,  // of those that cover it
    floats,   // in float32, from every type of K and V
    matrices  // by the matrix products of warps: Q, K, V and weights in f16, sums in float32
};

// All pointers are of the device.
struct PagedAttentionParams {
    PagedKv kv;
    int32_t n_head;
    float scale;
    float softcap;        // 0: none
    int32_t window;       // 0: none
    const float * sinks;  // [n_head], or null

    int32_t n_tokens;
    const int32_t * rows;       // [n_tokens], of the block tables
    const int32_t * positions;  // [n_tokens]
    const float * q;            // [n_tokens, n_head, head_dim_k]
    int64_t q_token_stride;     // in floats
    int64_t q_head_stride;
    // [n_tokens], n_values = n_head · head_dim_v; of int8 and f16, head_dim_v is a multiple of row_group_values
    ActivationRows out;

    // Neighbours that a block has together: of these, tokens of a sequence at consecutive positions read K and V once.
    // 1 for steps of single tokens.
    int32_t tokens_per_block;
    // Parts that a context is cut into, for as many blocks: 1 … attention_max_splits.
    int32_t n_splits;
    AttentionForm form;
    // Null with one split. They may serve all launches of a stream.
    float * workspace;   // what it holds does not matter
    int32_t * counters;  // zeros; a launch leaves zeros
};

// The most that tokens_per_block may be. PRECOND: can_read_kv
int32_t paged_attention_max_tokens_per_block(const PagedAttentionParams & params);

// Splits that keep all multiprocessors busy: the more tokens, the fewer, so that the workspace stays small. PRECOND:
// all but n_splits is supported; pointers may be null.
int32_t paged_attention_splits(const PagedAttentionParams & params, int32_t n_multiprocessors);

// Sizes of the workspace and of the counters, 0 with one split. PRECOND: supported; pointers may be null.
size_t paged_attention_workspace_bytes(const PagedAttentionParams & params);
size_t paged_attention_counter_bytes(const PagedAttentionParams & params);

// Whether a kernel covers this: head sizes, types, alignments, page size, tokens of a block. Pointers may still be
// null.
bool paged_attention_supports(const PagedAttentionParams & params);

// Returns cudaErrorInvalidValue for what is not covered, and where memory is missing. PRECOND: the block tables hold a
// page for every position that is attended to.
cudaError_t paged_attention(const PagedAttentionParams & params, cudaStream_t stream);

}  // namespace orin::cuda
