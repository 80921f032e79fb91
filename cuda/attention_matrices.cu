// Attention by matrix products of warps: for K and V of f16, q8_0 and q4_0.
#include <device/launch.cuh>
#include <limits>

#include "attention_copy.cuh"
#include "attention_forms.h"
#include "attention_products.cuh"
#include "kv_rows.cuh"

namespace orin::cuda {

namespace {

// Positions of a tile: so many that two stages leave room for two blocks on a multiprocessor.
__host__ __device__ constexpr int tile_of(int max_dim) {
    return max_dim <= 128 ? 64 : 32;
}

constexpr int blocks_per_multiprocessor(int max_dim) {
    return max_dim <= 64 ? 3 : 2;
}

// How the warps of a block share a run: row tiles side by side, and so many warps for the positions of each.
struct WarpPlace {
    int n_row_tiles;
    int row_tile;
    int n_groups;
    int group;

    __device__ __forceinline__ explicit WarpPlace(int n_rows) {
        const int warp = static_cast<int>(threadIdx.x) / 32;
        n_row_tiles = n_rows <= matrix_rows ? 1 : n_rows <= 2 * matrix_rows ? 2 : attention_warps;
        row_tile = warp % n_row_tiles;
        n_groups = attention_warps / n_row_tiles;
        group = warp / n_row_tiles;
    }
};

// A block's piece of a run, tile by tile: the next one is copied while one is worked on. shared: as MatrixMemory says
template <int max_dim, bool exact>
__device__ void attend(const PagedAttentionParams & p, const MatrixShape & shape, const AttentionRun & run,
                       const AttentionPiece & piece, char * shared) {
    using Rows = RowTile<max_dim, exact>;
    constexpr int tile = tile_of(max_dim);
    const PagedKv & kv = p.kv;
    const auto at = MatrixMemory::of(shape, kv, p.n_splits, Rows::keeps_queries);
    int * cells = reinterpret_cast<int *>(shared + at.cells);
    const auto floats = [&](int offset) { return reinterpret_cast<float *>(shared + offset); };

    const int thread = static_cast<int>(threadIdx.x);
    const int32_t * table = kv.block_tables + int64_t(p.rows[run.token]) * kv.max_pages;
    const auto cell_at = [&](int position) {
        return thread < tile && position + thread < piece.end ? kv_cell(kv, table, position + thread) : 0;
    };
    const auto keep_cell = [&](int stage, int cell) {
        if (thread < tile) {
            cells[stage * tile + thread] = cell;
        }
    };
    const RowCopy<tile> copy_k(shape.k, kv.k, uint32_t(kv.k_row_bytes), shape.heads.k_head_bytes, run.kv_head);
    const RowCopy<tile> copy_v(shape.v, kv.v, uint32_t(kv.v_row_bytes), shape.heads.v_head_bytes, run.kv_head);
    const auto begin_copy = [&](int position, int stage) {
        if (position < piece.end) {
            const int n = min(tile, piece.end - position);
            char * to = shared + at.stage + stage * at.stage_bytes;
            copy_k.begin(cells + stage * tile, n, to);
            copy_v.begin(cells + stage * tile, n, to + at.stored_v);
        }
        copy_async_commit();
    };

    const int first_cell = cell_at(piece.begin);
    const int second_cell = cell_at(piece.begin + tile);
    keep_cell(0, first_cell);
    keep_cell(1, second_cell);
    __syncthreads();
    begin_copy(piece.begin, 0);
    const WarpPlace place(run.n_rows());
    load_queries_as_halves(p, run, place.n_row_tiles * matrix_rows, shared + at.queries, at.query_stride,
                           floats(at.query_factor));
    __syncthreads();
    const int first_row = place.row_tile * matrix_rows;
    const TileHalves queries{shared + at.queries + first_row * at.query_stride, at.query_stride};
    Rows rows(kv.head_dim_k, kv.head_dim_v, queries, floats(at.query_factor) + first_row);
    if (Rows::keeps_queries) {
        __syncthreads();
    }
    begin_copy(piece.begin + tile, 1);

    // What the warp's rows, and the lane's two, attend to.
    const int n_rows = min(matrix_rows, run.n_rows() - first_row);
    const auto range_of = [&](int row) -> RowRange {
        const int position = run.position_of(row);
        return {p.window == 0 ? 0 : position - p.window + 1, min(position + 1, piece.end)};
    };
    const RowRange earliest = range_of(first_row);
    const RowRange latest = range_of(first_row + max(n_rows, 1) - 1);
    RowRange ranges[2];
    for (int i = 0; i < 2; i++) {
        const int row = first_row + thread % 32 / 4 + i * 8;
        ranges[i] = range_of(row);
        if (p.sinks != nullptr && blockIdx.x == 0 && place.group == 0 && row < run.n_rows()) {
            rows.begin_with(p.sinks[run.head_of(row)], i);
        }
    }

    const RowDecoder<tile> decode_k(kv.k_type, kv.head_dim_k, copy_k.before(), shape.k);
    const RowDecoder<tile> decode_v(kv.v_type, kv.head_dim_v, copy_v.before(), shape.v);
    int stage = 0;
    for (int position = piece.begin; position < piece.end; position += tile, stage ^= 1) {
        const int n = min(tile, piece.end - position);
        const int cell = cell_at(position + 2 * tile);
        copy_async_wait<1>();
        __syncthreads();
        const char * stored = shared + at.stage + stage * at.stage_bytes;
        TileHalves keys{stored, shape.k.stride};
        TileHalves values{stored + at.stored_v, shape.v.stride};
        if (shape.k.is_quantized) {
            decode_k.decode(keys.rows, shared + at.keys);
            keys.rows = shared + at.keys;
        }
        if (shape.v.is_quantized) {
            decode_v.decode(values.rows, shared + at.values);
            values.rows = shared + at.values;
        }
        if (shape.k.is_quantized || shape.v.is_quantized) {
            __syncthreads();
        }
        for (int i = place.group * matrix_rows; i < n; i += place.n_groups * matrix_rows) {
            const int begin = position + i;
            const int end = begin + matrix_rows;
            if (n_rows > 0 && begin < latest.behind && end > earliest.first) {
                const bool all_attend = begin >= latest.first && end <= earliest.behind;
                rows.attend({keys.at(i, 0), keys.stride}, {values.at(i, 0), values.stride}, begin, ranges, all_attend,
                            p.softcap);
            }
        }
        keep_cell(stage, cell);
        __syncthreads();
        begin_copy(position + 2 * tile, stage);
    }
    copy_async_wait<0>();

    rows.store(thread / 32, floats(at.sums), MatrixMemory::sum_stride(kv.head_dim_v), floats(at.warp_max),
               floats(at.warp_total));
    __syncthreads();
    // Warps that share rows: what their sums are multiplied by takes the place of their largest scores.
    if (thread < run.n_rows()) {
        const int row_in_tile = thread % matrix_rows;
        const auto of_warp = [&](int group) {
            return (group * place.n_row_tiles + thread / matrix_rows) * matrix_rows + row_in_tile;
        };
        float max = no_score;
        for (int group = 0; group < place.n_groups; group++) {
            max = fmaxf(max, floats(at.warp_max)[of_warp(group)]);
        }
        float total = 0.0f;
        for (int group = 0; group < place.n_groups; group++) {
            float & of_group = floats(at.warp_max)[of_warp(group)];
            of_group = exp2_approximate(of_group - max);
            total += of_group * floats(at.warp_total)[of_warp(group)];
        }
        floats(at.row_max)[thread] = max;
        floats(at.row_total)[thread] = total;
    }
    __syncthreads();
    const auto sum_of_groups = [&](int row, int channel) {
        float4 sum{};
        for (int group = 0; group < place.n_groups; group++) {
            const int of_warp = (group * place.n_row_tiles + row / matrix_rows) * matrix_rows + row % matrix_rows;
            sum += floats(at.warp_max)[of_warp] *
                   *reinterpret_cast<const float4 *>(floats(at.sums) +
                                                     of_warp * MatrixMemory::sum_stride(kv.head_dim_v) + channel);
        }
        return sum;
    };
    if (piece.n_pieces == 1) {
        store_results(p, run,
                      [&](int row, int channel) { return sum_of_groups(row, channel) / floats(at.row_total)[row]; });
        return;
    }
    const auto workspace = AttentionWorkspace::of(p);
    store_piece(p, workspace, run, floats(at.row_max), floats(at.row_total), sum_of_groups);
    if (arrive_last(p.counters + size_t(run.token) * gridDim.y + blockIdx.y, piece.n_pieces, cells)) {
        merge_pieces(
            p, workspace, run, piece.n_pieces, [](float x) { return exp2_approximate(x); }, floats(at.factors),
            floats(at.row_total));
    }
}

// Grid: splits; KV heads and parts of their heads; groups of tokens.
template <int max_dim, bool exact>
__global__ void __launch_bounds__(attention_threads, blocks_per_multiprocessor(max_dim))
    attention_matrices_kernel(PagedAttentionParams p, MatrixShape shape) {
    const int first = int(blockIdx.z) * p.tokens_per_block;
    const int behind = min(first + p.tokens_per_block, p.n_tokens);
    for (int token = first; token < behind;) {
        const AttentionRun run = attention_run(p, shape.heads, token, behind);
        token += run.n_tokens;
        if (run.position < 0) {
            if (blockIdx.x == 0) {
                store_results(p, run, [](int, int) { return float4{}; });
            }
            continue;
        }
        const AttentionPiece piece = attention_piece(p, shape.heads, run);
        if (piece.begin < piece.end) {
            attend<max_dim, exact>(p, shape, run, piece, shared_memory<char>());
            __syncthreads();  // the next run uses the same memory
        }
    }
}

int max_dim_of(const PagedKv & kv) {
    const int dim = kv.head_dim_k > kv.head_dim_v ? kv.head_dim_k : kv.head_dim_v;
    return dim <= 64 ? 64 : dim <= 128 ? 128 : matrices_largest_dim;
}

template <int max_dim, bool exact>
cudaError_t launch(const PagedAttentionParams & p, const MatrixShape & shape, cudaStream_t stream) {
    const auto memory = MatrixMemory::of(shape, p.kv, p.n_splits, RowTile<max_dim, exact>::keeps_queries);
    const size_t shared_bytes = size_t(memory.end);
    const auto kernel = attention_matrices_kernel<max_dim, exact>;
    if (const cudaError_t error = allow_shared_memory(kernel, shared_bytes); error != cudaSuccess) {
        return error;
    }
    ORIN_LAUNCH((attention_matrices_kernel<max_dim, exact>), attention_grid(p, shape.heads), attention_threads,
                shared_bytes, stream, p, shape);
    return cudaGetLastError();
}

}  // namespace

bool has_attention_matrices(const PagedKv & kv) {
    const auto fits = [](KvType type, int32_t head_dim, int64_t row_bytes) {
        return type != KvType::bf16 && head_dim <= matrices_largest_dim && tile_word(type, row_bytes) != 0 &&
               row_bytes <= std::numeric_limits<int32_t>::max();
    };
    return fits(kv.k_type, kv.head_dim_k, kv.k_row_bytes) && fits(kv.v_type, kv.head_dim_v, kv.v_row_bytes);
}

int32_t attention_matrices_rows_of(const PagedKv & kv) {
    return max_dim_of(kv) <= 128 ? attention_matrices_rows : attention_matrices_rows / 2;
}

int32_t attention_matrices_blocks(const PagedKv & kv) {
    return blocks_per_multiprocessor(max_dim_of(kv));
}

cudaError_t attention_matrices(const PagedAttentionParams & p, AttentionShape heads, cudaStream_t stream) {
    const PagedKv & kv = p.kv;
    const auto is_aligned = [](const void * cells) { return reinterpret_cast<uintptr_t>(cells) % 16 == 0; };
    if (!is_aligned(kv.k) || !is_aligned(kv.v)) {
        return cudaErrorInvalidValue;
    }
    const int max_dim = max_dim_of(kv);
    heads.tile = tile_of(max_dim);
    const MatrixShape shape{heads, tile_layout(kv.k_type, kv.head_dim_k, kv.k_row_bytes, heads.tile),
                            tile_layout(kv.v_type, kv.head_dim_v, kv.v_row_bytes, heads.tile)};
    const bool exact = kv.head_dim_k == max_dim && kv.head_dim_v == max_dim;
    switch (max_dim) {
        case 64:
            return exact ? launch<64, true>(p, shape, stream) : launch<64, false>(p, shape, stream);
        case 128:
            return exact ? launch<128, true>(p, shape, stream) : launch<128, false>(p, shape, stream);
        default:
            return exact ? launch<256, true>(p, shape, stream) : launch<256, false>(p, shape, stream);
    }
}

}  // namespace orin::cuda
