#include <algorithm>
#include <device/launch.cuh>

#include "attention_merge.cuh"
#include "attention_shape.cuh"
#include "attention_tile.cuh"
#include "paged_attention.h"

namespace orin::cuda {

namespace {

// At once: what registers allow. That is about as many as shared memory has room for at head size 128.
constexpr int blocks_per_multiprocessor(int max_rows) {
    return max_rows <= 8 ? 3 : 2;
}

constexpr int64_t max_grid = 65535;  // of the second and third dimension

// A block's piece of a run, tile by tile. shared: as AttentionMemory says
template <int max_rows>
__device__ void attend(const PagedAttentionParams & p, const AttentionShape & shape, const AttentionRun & run,
                       const AttentionPiece & piece, float * shared) {
    const PagedKv & kv = p.kv;
    const int tile = shape.tile;
    const auto at = AttentionMemory::of(max_rows, tile, kv.head_dim_k, kv.head_dim_v);
    int * cells = reinterpret_cast<int *>(shared + at.cells);
    const char * k = static_cast<const char *>(kv.k) + run.kv_head * int64_t(shape.k_head_bytes);
    const char * v = static_cast<const char *>(kv.v) + run.kv_head * int64_t(shape.v_head_bytes);

    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int n_rows = run.n_rows();
    RowSums<max_rows> rows;
    for (int i = 0; i < RowSums<max_rows>::n; i++) {
        const int r = warp + i * attention_warps;
        const bool has_sink = p.sinks != nullptr && blockIdx.x == 0 && r < n_rows;
        rows.max[i] = has_sink ? fmaxf(p.sinks[run.head_of(r)], no_score) : no_score;
        rows.total[i] = has_sink && lane == 0 ? 1.0f : 0.0f;
    }
    ValueSums<max_rows> sums(kv.head_dim_v);
    const TileReader reader(kv, k, v, shared + at.keys, shared + at.values);
    load_queries(p, run, shared + at.q);
    find_cells(p, run, piece.begin, min(tile, piece.end - piece.begin), cells);
    __syncthreads();

    for (int position = piece.begin; position < piece.end; position += tile) {
        const int n = min(tile, piece.end - position);
        reader.read(cells, n);
        __syncthreads();
        multiply_keys<max_rows>(tile, n, n_rows, kv.head_dim_k, shared + at.q, shared + at.keys, shared + at.products);
        find_cells(p, run, position + tile, min(tile, piece.end - position - tile), cells);
        __syncthreads();
        weigh<max_rows>(p, run, tile, position, n, shared + at.products, rows, shared + at.weights,
                        shared + at.rescale);
        __syncthreads();
        sums.add(n, n_rows, kv.head_dim_v, shared + at.values, shared + at.weights, shared + at.rescale);
        __syncthreads();
    }

    sums.store(n_rows, kv.head_dim_v, shared + at.sums);
    for (int i = 0; i < RowSums<max_rows>::n; i++) {
        const int r = warp + i * attention_warps;
        const float total = sum_of_warp(rows.total[i]);
        if (lane == 0 && r < n_rows) {
            shared[at.max + r] = rows.max[i];
            shared[at.total + r] = total;
        }
    }
    __syncthreads();
    if (piece.n_pieces == 1) {
        for_all_sums<max_rows>(sums.n_parts, n_rows, kv.head_dim_v, shared + at.sums, [&](int r, int i, float sum) {
            attention_result(p, run, r)[i] = sum / shared[at.total + r];
        });
        return;
    }

    const auto workspace = AttentionWorkspace::of(p);
    for_all_sums<max_rows>(sums.n_parts, n_rows, kv.head_dim_v, shared + at.sums, [&](int r, int i, float sum) {
        workspace.values[piece_index(p, run, r, int(blockIdx.x)) * kv.head_dim_v + i] = sum;
    });
    if (const int r = threadIdx.x; r < n_rows) {
        workspace.max[piece_index(p, run, r, int(blockIdx.x))] = shared[at.max + r];
        workspace.total[piece_index(p, run, r, int(blockIdx.x))] = shared[at.total + r];
    }
    if (arrive_last(p.counters + size_t(run.token) * gridDim.y + blockIdx.y, piece.n_pieces, cells)) {
        merge_pieces(p, workspace, run, piece.n_pieces, shared + at.factors, shared + at.total);
    }
}

// Grid: splits; KV heads and parts of their heads; groups of tokens.
template <int max_rows>
__global__ void __launch_bounds__(attention_threads, blocks_per_multiprocessor(max_rows))
    paged_attention_kernel(PagedAttentionParams p, AttentionShape shape) {
    const int first = int(blockIdx.z) * p.tokens_per_block;
    const int behind = min(first + p.tokens_per_block, p.n_tokens);
    for (int token = first; token < behind;) {
        const AttentionRun run = attention_run(p, shape, token, behind);
        token += run.n_tokens;
        if (run.position < 0) {
            if (blockIdx.x == 0) {
                write_zeros(p, run);
            }
            continue;
        }
        const AttentionPiece piece = attention_piece(p, shape, run);
        if (piece.begin < piece.end) {
            attend<max_rows>(p, shape, run, piece, shared_memory<float>());
            __syncthreads();  // the next run uses the same memory
        }
    }
}

AttentionShape shape_of(const PagedAttentionParams & p) {
    AttentionShape shape = attention_heads(p.n_head, p.kv.n_head_kv, p.tokens_per_block);
    shape.tile = attention_tile(shape.max_rows, p.kv.head_dim_k, p.kv.head_dim_v);
    shape.k_head_bytes = int32_t(kv_row_bytes(p.kv.k_type, p.kv.head_dim_k));
    shape.v_head_bytes = int32_t(kv_row_bytes(p.kv.v_type, p.kv.head_dim_v));
    return shape;
}

// KV heads, and parts of their heads.
int64_t n_head_parts(const PagedAttentionParams & p) {
    return int64_t(p.kv.n_head_kv) * attention_heads(p.n_head, p.kv.n_head_kv, p.tokens_per_block).n_head_blocks;
}

// More than is free for all kernels is asked for: always the same, as launches of other shapes may be on their way.
template <int max_rows>
cudaError_t allow_shared_memory() {
    constexpr auto most = AttentionMemory::of(max_rows, attention_min_tile, kv_max_head_dim, kv_max_head_dim);
    return cudaFuncSetAttribute(paged_attention_kernel<max_rows>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                most.end * int(sizeof(float)));
}

template <int max_rows>
cudaError_t launch(const PagedAttentionParams & p, const AttentionShape & shape, cudaStream_t stream) {
    const auto memory = AttentionMemory::of(max_rows, shape.tile, p.kv.head_dim_k, p.kv.head_dim_v);
    const size_t shared_bytes = size_t(memory.end) * sizeof(float);
    if (shared_bytes > attention_free_shared_bytes) {
        if (const cudaError_t error = allow_shared_memory<max_rows>(); error != cudaSuccess) {
            return error;
        }
    }
    const dim3 grid(unsigned(p.n_splits), unsigned(n_head_parts(p)),
                    unsigned(divide_up(p.n_tokens, p.tokens_per_block)));
    ORIN_LAUNCH(paged_attention_kernel<max_rows>, grid, attention_threads, shared_bytes, stream, p, shape);
    return cudaGetLastError();
}

bool has_pointers(const PagedAttentionParams & p) {
    return has_kv(p.kv) && p.rows != nullptr && p.positions != nullptr && p.q != nullptr && p.out != nullptr &&
           (p.n_splits == 1 || (p.workspace != nullptr && p.counters != nullptr));
}

}  // namespace

int32_t paged_attention_splits(int32_t n_tokens, int32_t n_head, int32_t n_head_kv, int32_t tokens_per_block,
                               int32_t n_multiprocessors) {
    const AttentionShape shape = attention_heads(n_head, n_head_kv, tokens_per_block);
    const int64_t n_blocks = int64_t(n_head_kv) * shape.n_head_blocks * divide_up(n_tokens, tokens_per_block);
    const int64_t wanted = int64_t(n_multiprocessors) * blocks_per_multiprocessor(shape.max_rows);
    return int32_t(std::clamp<int64_t>(n_blocks == 0 ? 1 : wanted / n_blocks, 1, attention_max_splits));
}

size_t paged_attention_workspace_bytes(const PagedAttentionParams & p) {
    return p.n_splits == 1 ? 0 : AttentionWorkspace::n_pieces(p) * (2 + p.kv.head_dim_v) * sizeof(float);
}

size_t paged_attention_counter_bytes(const PagedAttentionParams & p) {
    return p.n_splits == 1 ? 0 : size_t(p.n_tokens) * size_t(n_head_parts(p)) * sizeof(int32_t);
}

bool paged_attention_supports(const PagedAttentionParams & p) {
    if (!can_read_kv(p.kv) || p.n_head <= 0 || p.n_head % p.kv.n_head_kv != 0 || p.n_tokens < 0 || p.window < 0 ||
        p.n_splits < 1 || p.n_splits > attention_max_splits || p.tokens_per_block < 1 ||
        (p.tokens_per_block > 1 && p.tokens_per_block > attention_max_rows / (p.n_head / p.kv.n_head_kv))) {
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
    const AttentionShape shape = shape_of(p);
    switch (shape.max_rows) {
        case 1:
            return launch<1>(p, shape, stream);
        case 2:
            return launch<2>(p, shape, stream);
        case 4:
            return launch<4>(p, shape, stream);
        case 8:
            return launch<8>(p, shape, stream);
        default:
            return launch<16>(p, shape, stream);
    }
}

}  // namespace orin::cuda
