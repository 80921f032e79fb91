// Attention in float32, for all that the faster form does not cover.
#include <device/launch.cuh>

#include "attention_forms.h"
#include "attention_merge.cuh"
#include "attention_tile.cuh"

namespace orin::cuda {

namespace {

// At once: what registers allow. That is about as many as shared memory has room for at head size 128.
constexpr int blocks_per_multiprocessor(int max_rows) {
    return max_rows <= 4 ? 3 : 2;
}

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
    // [parts, max_rows, head_dim_v]
    const auto sum_of_parts = [&](int r, int channel) {
        float4 sum{};
        for (int part = 0; part < sums.n_parts; part++) {
            sum +=
                *reinterpret_cast<const float4 *>(shared + at.sums + (part * max_rows + r) * kv.head_dim_v + channel);
        }
        return sum;
    };
    if (piece.n_pieces == 1) {
        store_results(p, run, [&](int r, int channel) { return sum_of_parts(r, channel) / shared[at.total + r]; });
        return;
    }
    const auto workspace = AttentionWorkspace::of(p);
    store_piece(p, workspace, run, shared + at.max, shared + at.total, sum_of_parts);
    if (arrive_last(p.counters + size_t(run.token) * gridDim.y + blockIdx.y, piece.n_pieces, cells)) {
        merge_pieces(
            p, workspace, run, piece.n_pieces, [](float x) { return expf(x); }, shared + at.factors, shared + at.total);
    }
}

// Grid: splits; KV heads and parts of their heads; groups of tokens.
template <int max_rows>
__global__ void __launch_bounds__(attention_threads, blocks_per_multiprocessor(max_rows))
    attention_floats_kernel(PagedAttentionParams p, AttentionShape shape) {
    const int first = int(blockIdx.z) * p.tokens_per_block;
    const int behind = min(first + p.tokens_per_block, p.n_tokens);
    for (int token = first; token < behind;) {
        const AttentionRun run = attention_run(p, shape, token, behind);
        token += run.n_tokens;
        if (run.position < 0) {
            if (blockIdx.x == 0) {
                store_results(p, run, [](int, int) { return float4{}; });
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

template <int max_rows>
cudaError_t launch(const PagedAttentionParams & p, const AttentionShape & shape, cudaStream_t stream) {
    const auto memory = AttentionMemory::of(max_rows, shape.tile, p.kv.head_dim_k, p.kv.head_dim_v);
    const size_t shared_bytes = size_t(memory.end) * sizeof(float);
    constexpr auto most = AttentionMemory::of(max_rows, attention_min_tile, kv_max_head_dim, kv_max_head_dim);
    static_assert(size_t(most.end) * sizeof(float) <= most_shared_bytes);
    if (const cudaError_t error = allow_shared_memory(attention_floats_kernel<max_rows>, shared_bytes);
        error != cudaSuccess) {
        return error;
    }
    ORIN_LAUNCH(attention_floats_kernel<max_rows>, attention_grid(p, shape), attention_threads, shared_bytes, stream, p,
                shape);
    return cudaGetLastError();
}

}  // namespace

int32_t attention_floats_blocks(const AttentionShape & shape) {
    return blocks_per_multiprocessor(shape.max_rows);
}

cudaError_t attention_floats(const PagedAttentionParams & p, AttentionShape shape, cudaStream_t stream) {
    shape.tile = attention_tile(shape.max_rows, p.kv.head_dim_k, p.kv.head_dim_v);
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
