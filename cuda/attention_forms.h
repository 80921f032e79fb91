// The kernels that paged_attention() chooses from.
#pragma once

#include "attention_shape.cuh"

namespace orin::cuda {

// Heads times tokens of a block.
constexpr int32_t attention_floats_rows = 16;
constexpr int32_t attention_matrices_rows = 64;  // 16 for each warp, at most

// Whether the form by matrix products has these types and sizes. PRECOND: can_read_kv
bool has_attention_matrices(const PagedKv & kv);

// Heads times tokens that a block can have: fewer of large heads, so that its memory is what every device has.
int32_t attention_matrices_rows_of(const PagedKv & kv);

// Blocks that a multiprocessor has at once.
int32_t attention_floats_blocks(const AttentionShape & shape);
int32_t attention_matrices_blocks(const PagedKv & kv);

// PRECOND of both: paged_attention_supports, all pointers, at least one token. The form by matrix products returns
// cudaErrorInvalidValue for K and V that are not aligned to 16 bytes.
cudaError_t attention_floats(const PagedAttentionParams & params, AttentionShape shape, cudaStream_t stream);
cudaError_t attention_matrices(const PagedAttentionParams & params, AttentionShape shape, cudaStream_t stream);

// Splits; KV heads and parts of their heads; groups of tokens.
inline dim3 attention_grid(const PagedAttentionParams & p, const AttentionShape & shape) {
    return dim3(unsigned(p.n_splits), unsigned(p.kv.n_head_kv * shape.n_head_blocks),
                unsigned(divide_up(p.n_tokens, p.tokens_per_block)));
}

}  // namespace orin::cuda
