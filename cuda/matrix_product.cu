#include <algorithm>
#include <device/launch.cuh>

#include "divide_up.h"
#include "matrix_product.h"
#include "matrix_product_result.cuh"
#include "matrix_product_sums.cuh"
#include "matrix_product_tile.cuh"
#include "shared_limits.h"

namespace orin::cuda {

namespace {

constexpr int token_tiles_together = 4;  // neighbouring blocks share weights of as many, and activations of the others
constexpr int32_t max_row_bytes = 1 << 24;  // so that those of a tile's rows are an int32_t

// What the launcher works out.
struct Grid {
    int32_t row_tiles[max_matrices];
    int32_t all_row_tiles;
    int32_t token_tiles;
    int32_t block;  // where shared memory has the BlockTile, in bytes
};

template <typename Tile, WeightType type>
__device__ __forceinline__ void sum_up(const MatrixParams & p, const ProductRows & rows, int32_t first_token,
                                       char * shared) {
    const int32_t n_units = (p.input.n_values + WeightTile<type>::unit - 1) / WeightTile<type>::unit;
    const auto begin = int32_t(int64_t(n_units) * blockIdx.y / p.n_splits);
    const auto end = int32_t(int64_t(n_units) * (blockIdx.y + 1) / p.n_splits);
    float sums[Tile::sixteens][Tile::tokens / 8][4] = {};
    ProductPipeline<Tile, type>(p, rows, first_token, begin, end, shared).add(sums);
    store_sums<Tile>(sums, WeightTile<type>::factor, reinterpret_cast<float *>(shared));
}

template <typename Tile>
__device__ __forceinline__ void sum_up(const MatrixParams & p, WeightType type, const ProductRows & rows,
                                       int32_t first_token, char * shared) {
    switch (type) {
        case WeightType::f16:
            return sum_up<Tile, WeightType::f16>(p, rows, first_token, shared);
        case WeightType::q8_0:
            return sum_up<Tile, WeightType::q8_0>(p, rows, first_token, shared);
        case WeightType::q4_0:
            return sum_up<Tile, WeightType::q4_0>(p, rows, first_token, shared);
        case WeightType::q4_1:
            return sum_up<Tile, WeightType::q4_1>(p, rows, first_token, shared);
        case WeightType::q4_K:
            return sum_up<Tile, WeightType::q4_K>(p, rows, first_token, shared);
        case WeightType::q5_K:
            return sum_up<Tile, WeightType::q5_K>(p, rows, first_token, shared);
        case WeightType::q6_K:
            return sum_up<Tile, WeightType::q6_K>(p, rows, first_token, shared);
    }
}

// What a block has. It lies in shared memory: registers are for sums.
struct BlockTile {
    ProductRows rows;
    WeightType type;
    int32_t matrix;
    int32_t first_row;
    int32_t first_token;
    int32_t is_last;
};

__device__ __forceinline__ WeightMatrix choose(const MatrixParams & p, int32_t matrix) {
    static_assert(max_matrices == 3);
    return matrix == 0 ? p.matrices[0] : matrix == 1 ? p.matrices[1] : p.matrices[2];
}

template <typename Tile>
__device__ __forceinline__ BlockTile block_tile(const MatrixParams & p, const Grid & grid) {
    const auto tile = int32_t(blockIdx.x);
    const int32_t of_group = token_tiles_together * grid.all_row_tiles;
    const int32_t first_token_tile = tile / of_group * token_tiles_together;
    const int32_t in_group = min(token_tiles_together, grid.token_tiles - first_token_tile);
    const int32_t token_tile = first_token_tile + tile % of_group % in_group;
    int32_t row_tile = tile % of_group / in_group;
    int32_t i = 0;
    while (i < max_matrices - 1 && row_tile >= grid.row_tiles[i]) {
        row_tile -= grid.row_tiles[i++];
    }
    const WeightMatrix matrix = choose(p, i);
    const bool is_gate = p.gate != Gate::none;
    const int32_t n_together = is_gate ? Tile::rows / 2 : Tile::rows;
    const int32_t first_row = row_tile * n_together;
    const int64_t begin = first_row * matrix.row_bytes;
    return {{static_cast<const char *>(matrix.rows) + begin, static_cast<const char *>(p.matrices[1].rows) + begin,
             uint32_t(matrix.row_bytes), n_together, matrix.n_rows - 1 - first_row},
            matrix.type,
            i,
            first_row,
            token_tile * Tile::tokens,
            0};
}

// Grid: tiles; splits.
template <typename Tile>
__global__ void __launch_bounds__(product_threads, Tile::blocks) matrix_product_kernel(MatrixParams p, Grid grid) {
    char * shared = shared_memory<char>();
    auto & block = *reinterpret_cast<BlockTile *>(shared + grid.block);
    if (threadIdx.x == 0) {
        block = block_tile<Tile>(p, grid);
    }
    __syncthreads();
    sum_up<Tile>(p, block.type, block.rows, block.first_token, shared);
    __syncthreads();
    auto * sums = reinterpret_cast<float *>(shared);
    if (p.n_splits > 1) {
        constexpr int fours = Tile::tokens * Tile::rows / 4;
        auto * parts = reinterpret_cast<float4 *>(p.workspace) + int64_t(blockIdx.x) * p.n_splits * fours;
        if (!merge_parts<Tile>(sums, parts, int(blockIdx.y), p.n_splits, p.counters + blockIdx.x, &block.is_last)) {
            return;
        }
    }
    write_results<Tile>(p, choose(p, block.matrix), block.first_row, block.first_token, sums);
}

// --- shapes

// Shared memory is such that a multiprocessor of the board, with 164 KiB, has room for the blocks; for weights of q6_K
// it has room for one less of 8, 16 and 128 tokens.
using Tile8 = ProductTile<8, 1, 256, 3, 4>;
using Tile16 = ProductTile<16, 1, 256, 3, 3>;
using Tile32 = ProductTile<32, 2, 128, 3, 2>;
using Tile64 = ProductTile<64, 2, 64, 3, 2>;
using Tile128 = ProductTile<128, 2, 64, 2, 2>;

// Calls f(Tile()) for what has the least tokens that are none, or nearly: larger tiles decode weights for more.
template <typename Function>
auto with_tile(int32_t n_tokens, const Function & f) {
    if (n_tokens <= 8) {
        return f(Tile8());
    }
    if (n_tokens <= 16) {
        return f(Tile16());
    }
    if (n_tokens <= 32) {
        return f(Tile32());
    }
    const int64_t by_64 = int64_t(divide_up(n_tokens, 64)) * 64;
    const int64_t by_128 = int64_t(divide_up(n_tokens, 128)) * 128;
    if (by_64 * 9 / 8 < by_128) {
        return f(Tile64());
    }
    return f(Tile128());
}

template <typename Tile>
constexpr size_t most_block_bytes() {
    int most = sums_bytes<Tile>();
    for (int type = 0; type < n_weight_types; type++) {
        most = std::max(most, stages_bytes<Tile>(WeightType(type)));
    }
    return size_t(most) + sizeof(BlockTile);
}

template <typename Tile>
Grid grid_of(const MatrixParams & p) {
    Grid grid{};
    const bool is_gate = p.gate != Gate::none;
    grid.block = sums_bytes<Tile>();
    for (int i = 0; i < (is_gate ? 1 : p.n_matrices); i++) {
        grid.row_tiles[i] = divide_up(p.matrices[i].n_rows, is_gate ? Tile::rows / 2 : Tile::rows);
        grid.all_row_tiles += grid.row_tiles[i];
        grid.block = std::max(grid.block, stages_bytes<Tile>(p.matrices[i].type));
    }
    grid.token_tiles = divide_up(p.n_tokens, Tile::tokens);
    return grid;
}

template <typename Tile>
int64_t n_tiles(const MatrixParams & p) {
    const Grid grid = grid_of<Tile>(p);
    return int64_t(grid.all_row_tiles) * grid.token_tiles;
}

template <typename Tile>
cudaError_t launch(const MatrixParams & p, cudaStream_t stream) {
    const Grid grid = grid_of<Tile>(p);
    const size_t shared_bytes = size_t(grid.block) + sizeof(BlockTile);
    static_assert(most_block_bytes<Tile>() <= most_shared_bytes);
    if (const cudaError_t error = allow_shared_memory(matrix_product_kernel<Tile>, shared_bytes);
        error != cudaSuccess) {
        return error;
    }
    const dim3 blocks(unsigned(n_tiles<Tile>(p)), unsigned(p.n_splits));
    ORIN_LAUNCH(matrix_product_kernel<Tile>, blocks, product_threads, shared_bytes, stream, p, grid);
    return cudaGetLastError();
}

bool is_matrix(const WeightMatrix & m, int32_t n_values) {
    const int32_t block = weight_block_values(m.type);
    if (block == 0 || n_values % block != 0) {
        return false;
    }
    const bool is_aligned = m.type == WeightType::f16 || m.type == WeightType::q4_K || m.type == WeightType::q5_K;
    const int64_t alignment = is_aligned ? 16 : m.type == WeightType::q4_1 ? 4 : 2;
    return m.n_rows >= 1 && m.row_bytes % alignment == 0 && m.row_bytes <= max_row_bytes &&
           m.row_bytes >= int64_t(n_values / block) * weight_block_bytes(m.type) &&
           reinterpret_cast<uintptr_t>(m.rows) % 16 == 0;
}

bool has_pointers(const MatrixParams & p) {
    const bool is_gate = p.gate != Gate::none;
    for (int i = 0; i < p.n_matrices; i++) {
        const bool has_out = p.out_rows.rows != nullptr || (is_gate && i == 1) || p.matrices[i].out != nullptr;
        if (p.matrices[i].rows == nullptr || !has_out) {
            return false;
        }
    }
    return p.input.rows != nullptr && (p.n_splits == 1 || (p.workspace != nullptr && p.counters != nullptr));
}

}  // namespace

bool can_matrix_product(const MatrixParams & p) {
    const bool is_gate = p.gate != Gate::none;
    if (p.input.format != RowFormat::f16 || p.input.n_values < 32 || p.input.n_values > max_row_bytes / 2 ||
        p.input.n_values % 32 != 0 || p.n_tokens < 0 || p.n_matrices < 1 || p.n_matrices > max_matrices ||
        p.n_splits < 1 || p.n_splits > 65535 ||
        !std::all_of(p.matrices, p.matrices + p.n_matrices,
                     [&](const WeightMatrix & m) { return is_matrix(m, p.input.n_values); })) {
        return false;
    }
    const WeightMatrix & first = p.matrices[0];
    const WeightMatrix & second = p.matrices[1];
    if (is_gate && (p.n_matrices != 2 || first.type != second.type || first.n_rows != second.n_rows ||
                    first.row_bytes != second.row_bytes)) {
        return false;
    }
    const bool is_one = is_gate || p.n_matrices == 1;
    if ((p.residual != nullptr && !is_one) ||
        (p.out_rows.rows != nullptr && (!is_one || first.n_rows % 32 != 0 || p.out_rows.n_values != first.n_rows))) {
        return false;
    }
    return with_tile(p.n_tokens, [&](auto tile) { return n_tiles<decltype(tile)>(p) <= 0x7FFFFFFF; });
}

int32_t matrix_product_splits(const MatrixParams & p, int32_t n_multiprocessors) {
    return with_tile(p.n_tokens, [&](auto tile) {
        using Tile = decltype(tile);
        constexpr int32_t least_values = Tile::tokens <= 32 ? 512 : 1024;  // what a part has, so that it is worth it
        const int64_t tiles = std::max<int64_t>(n_tiles<Tile>(p), 1);
        const int64_t room = int64_t(n_multiprocessors) * Tile::blocks;
        const int64_t most = std::max(p.input.n_values / least_values, 1);
        return int32_t(std::clamp<int64_t>(room / tiles, 1, most));
    });
}

size_t matrix_product_workspace_bytes(const MatrixParams & p) {
    return with_tile(p.n_tokens, [&](auto tile) {
        using Tile = decltype(tile);
        const size_t bytes = size_t(Tile::tokens) * Tile::rows * sizeof(float);
        return p.n_splits == 1 ? size_t{0} : size_t(n_tiles<Tile>(p)) * size_t(p.n_splits) * bytes;
    });
}

size_t matrix_product_counter_bytes(const MatrixParams & p) {
    return with_tile(p.n_tokens, [&](auto tile) {
        return p.n_splits == 1 ? size_t{0} : size_t(n_tiles<decltype(tile)>(p)) * sizeof(int32_t);
    });
}

cudaError_t matrix_product(const MatrixParams & p, cudaStream_t stream) {
    if (!can_matrix_product(p) || (p.n_tokens > 0 && !has_pointers(p))) {
        return cudaErrorInvalidValue;
    }
    if (p.n_tokens == 0) {
        return cudaSuccess;
    }
    return with_tile(p.n_tokens, [&](auto tile) { return launch<decltype(tile)>(p, stream); });
}

}  // namespace orin::cuda
