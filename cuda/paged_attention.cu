#include <algorithm>

#include "attention_forms.h"
#include "device_size.h"
#include "paged_attention.h"

namespace orin::cuda {

namespace {

constexpr int64_t max_grid = 65535;  // of the second and third dimension

bool uses_matrices(const PagedAttentionParams & p) {
    return p.form != AttentionForm::floats && has_attention_matrices(p.kv);
}

int32_t max_rows(const PagedAttentionParams & p) {
    return uses_matrices(p) ? attention_matrices_rows_of(p.kv) : attention_floats_rows;
}

AttentionShape shape_of(const PagedAttentionParams & p) {
    return attention_shape(p, max_rows(p));
}

// Where multiprocessors are many, one block on each of them has enough bytes under way, and more would leave the last
// one to arrive with more pieces to merge than their reading takes.
int32_t blocks_per_multiprocessor(const PagedAttentionParams & p, int32_t n_multiprocessors) {
    if (!uses_matrices(p)) {
        return attention_floats_blocks(shape_of(p));
    }
    return has_few_multiprocessors(n_multiprocessors) ? attention_matrices_blocks(p.kv) : 1;
}

// KV heads, and parts of their heads.
int64_t n_head_parts(const PagedAttentionParams & p) {
    return int64_t(p.kv.n_head_kv) * shape_of(p).n_head_blocks;
}

bool can_store(const PagedAttentionParams & p) {
    return p.out.n_values == int64_t(p.n_head) * p.kv.head_dim_v &&
           (p.out.format == RowFormat::f32 || p.kv.head_dim_v % row_group_values == 0);
}

bool has_pointers(const PagedAttentionParams & p) {
    return has_kv(p.kv) && p.rows != nullptr && p.positions != nullptr && p.q != nullptr && p.out.rows != nullptr &&
           (p.n_splits == 1 || (p.workspace != nullptr && p.counters != nullptr));
}

}  // namespace

int32_t paged_attention_max_tokens_per_block(const PagedAttentionParams & p) {
    return std::max(1, max_rows(p) / (p.n_head / p.kv.n_head_kv));
}

int32_t paged_attention_splits(const PagedAttentionParams & p, int32_t n_multiprocessors) {
    const int64_t n_blocks = n_head_parts(p) * divide_up(p.n_tokens, p.tokens_per_block);
    const int64_t wanted = int64_t(n_multiprocessors) * blocks_per_multiprocessor(p, n_multiprocessors);
    return int32_t(std::clamp<int64_t>(n_blocks == 0 ? 1 : wanted / n_blocks, 1, attention_max_splits));
}

size_t paged_attention_workspace_bytes(const PagedAttentionParams & p) {
    return p.n_splits == 1 ? 0 : AttentionWorkspace::n_pieces(p) * (2 + p.kv.head_dim_v) * sizeof(float);
}

size_t paged_attention_counter_bytes(const PagedAttentionParams & p) {
    return p.n_splits == 1 ? 0 : size_t(p.n_tokens) * size_t(n_head_parts(p)) * sizeof(int32_t);
}

bool paged_attention_supports(const PagedAttentionParams & p) {
    if (!can_read_kv(p.kv) || (p.form == AttentionForm::matrices && !uses_matrices(p)) || p.n_head <= 0 ||
        p.n_head % p.kv.n_head_kv != 0 || p.n_tokens < 0 || p.window < 0 || p.n_splits < 1 ||
        p.n_splits > attention_max_splits || p.tokens_per_block < 1 ||
        p.tokens_per_block > paged_attention_max_tokens_per_block(p) || !can_store(p)) {
        return false;
    }
    return n_head_parts(p) <= max_grid && divide_up(p.n_tokens, p.tokens_per_block) <= max_grid;
}

cudaError_t paged_attention(const PagedAttentionParams & p, cudaStream_t stream) {
    if (!paged_attention_supports(p) || (p.n_tokens > 0 && !has_pointers(p))) {
        return cudaErrorInvalidValue;
    }
    if (p.n_tokens == 0) {
        return cudaSuccess;
    }
    return uses_matrices(p) ? attention_matrices(p, shape_of(p), stream) : attention_floats(p, shape_of(p), stream);
}

}  // namespace orin::cuda
