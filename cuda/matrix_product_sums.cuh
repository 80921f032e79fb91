// The sums of a block's tile: weights and activations stream through shared memory, a stage is multiplied while the
// next ones are under way.
#pragma once

#include <cuda_runtime.h>

#include <device/intrinsics.cuh>

#include "activation_rows.cuh"
#include "matrix_product_tile.cuh"

namespace orin::cuda {

// Where 8 activations of a token stand in its row of a stage, in sixteens of bytes: those of lane t. Two neighbouring
// tokens are in different banks.
__device__ __forceinline__ int activation_place(int token, int eight, int t) {
    return (eight ^ (token % 2)) * 4 + t;
}

template <typename Tile, WeightType type>
class ProductPipeline {
   public:
    using Stages = ProductStages<Tile, type>;
    using Weights = WeightTile<type>;

    // Units of the rows from `begin` to `end`, for the tokens from first_token on.
    __device__ __forceinline__ ProductPipeline(const MatrixParams & p, const ProductRows & rows, int32_t first_token,
                                               int32_t begin, int32_t end, char * shared)
        : p_(p), rows_(rows), first_token_(first_token), begin_(begin), n_units_(end - begin), shared_(shared) {
        for (int i = 0; i < Tile::sixteens * 2; i++) {
            misaligned_ |= unsigned(rows.row(row_in_tile(i)) * rows.row_bytes / 2 % 2) << i;
        }
    }

    // Adds to the warp's sums: [sixteens of rows][eights of tokens], as mma_f16 has them.
    __device__ __forceinline__ void add(float (&sums)[Tile::sixteens][Tile::tokens / 8][4]) {
        const int n_stages = n_units_ * Stages::per_unit;
        for (int stage = 0; stage < product_stages - 1; stage++) {
            request(stage, n_stages);
        }
        for (int unit = 0; unit < n_units_; unit++) {
            TileScales scales[Tile::sixteens][2];
#pragma unroll 1
            for (int part = 0; part < Stages::per_unit; part++) {
                const int stage = unit * Stages::per_unit + part;
                copy_async_wait<product_stages - 2>();
                __syncthreads();  // the stage is there, and the one before it is used
                request(stage + product_stages - 1, n_stages);
                if (part == 0) {
                    read_scales(unit, scales);
                }
                multiply(unit, part, stage, scales, sums);
            }
        }
        copy_async_wait<0>();
        __syncthreads();
    }

   private:
    __device__ __forceinline__ char * unit_memory(int unit) const {
        return shared_ + unit % Stages::units * Stages::unit_bytes;
    }
    __device__ __forceinline__ char * stage_memory(int stage) const {
        return shared_ + Stages::units * Stages::unit_bytes + stage % product_stages * Stages::stage_bytes;
    }

    // A group of copies for each stage, also for those that are none.
    __device__ __forceinline__ void request(int stage, int n_stages) const {
        if (stage < n_stages) {
            if (stage % Stages::per_unit == 0) {
                copy_weights(stage / Stages::per_unit);
            }
            copy_activations(stage);
        }
        copy_async_commit();
    }

    __device__ __forceinline__ void copy_weights(int unit) const {
        constexpr int n_pieces = Weights::n_pieces;
        constexpr uintptr_t piece_mask = Weights::piece_bytes - 1;
        const ProductRows rows = rows_;
        char * to = unit_memory(unit);
        const int64_t row_end = int64_t(p_.input.n_values) * Weights::unit_bytes / Weights::unit;
        const int64_t unit_begin = int64_t(begin_ + unit) * Weights::unit_bytes;
#pragma unroll 1
        for (int i = int(threadIdx.x); i < Tile::rows * n_pieces; i += product_threads) {
            const int in_tile = i / n_pieces;
            const int piece = i % n_pieces;
            const char * matrix = rows.matrix(in_tile);
            const char * row = matrix + int64_t(rows.row(in_tile)) * rows.row_bytes;
            const auto begin = reinterpret_cast<uintptr_t>(row + unit_begin) & ~piece_mask;
            const char * from = reinterpret_cast<const char *>(begin) + piece * Weights::piece_bytes;
            char * place = to + in_tile * Weights::row_bytes + Weights::place(piece, in_tile) * Weights::piece_bytes;
            const int64_t left = row + row_end - from;
            if (left >= Weights::piece_bytes) {
                copy_async<Weights::piece_bytes>(place, from);
            } else {
                // Zeros behind the row: what is there may be no numbers, or no memory.
                const uint32_t last = left > 0 ? *reinterpret_cast<const uint16_t *>(from) : 0;
                *reinterpret_cast<uint32_t *>(place) = last;
                for (int word = 1; word < Weights::piece_bytes / 4; word++) {
                    reinterpret_cast<uint32_t *>(place)[word] = 0;
                }
            }
        }
    }

    __device__ __forceinline__ void copy_activations(int stage) const {
        constexpr int row_pieces = Stages::row_bytes / 16;
        constexpr int run_pieces = row_pieces / 4;  // of a lane
        char * to = stage_memory(stage);
        const int part = stage % Stages::per_unit;
        const int first = (begin_ + stage / Stages::per_unit) * Weights::unit + part * Stages::eights * 8;
#pragma unroll 1
        for (int i = int(threadIdx.x); i < Tile::tokens * row_pieces; i += product_threads) {
            const int token = i / row_pieces;
            const int t = i % row_pieces / run_pieces;
            const int piece = i % run_pieces;
            const int value = first + t * (Weights::unit / 4) + piece * 8;
            char * place = to + token * Stages::row_bytes + activation_place(token, piece, t) * 16;
            if (value < p_.input.n_values) {
                // Tokens behind the last are as that one, and nobody stores their sums.
                const char * row = activation_row(p_.input, min(first_token_ + token, p_.n_tokens - 1));
                copy_async<16>(place, row + int64_t(value) * 2);
            } else {
                *reinterpret_cast<uint4 *>(place) = make_uint4(0, 0, 0, 0);
            }
        }
    }

    // Of the warp's row; i: of the ones that a lane has values of, 8 apart.
    __device__ __forceinline__ static int row_in_tile(int i) {
        return int(threadIdx.x) / 32 * Tile::sixteens * 16 + i * 8 + int(threadIdx.x) % 32 / 4;
    }
    __device__ __forceinline__ const char * raw(int unit, int i) const {
        const char * row = unit_memory(unit) + row_in_tile(i) * Weights::row_bytes;
        if constexpr (Weights::piece_bytes == 4) {
            return row + (((misaligned_ >> i) + (begin_ + unit) * (Weights::unit_bytes / 2)) & 1) * 2;
        }
        return row;
    }

    __device__ __forceinline__ void read_scales(int unit, TileScales (&scales)[Tile::sixteens][2]) const {
#pragma unroll
        for (int i = 0; i < Tile::sixteens * 2; i++) {
            scales[i / 2][i % 2] = Weights::scales(raw(unit, i), int(threadIdx.x) % 4);
        }
    }

    __device__ __forceinline__ void multiply(int unit, int part, int stage,
                                             const TileScales (&scales)[Tile::sixteens][2],
                                             float (&sums)[Tile::sixteens][Tile::tokens / 8][4]) const {
        const int g = int(threadIdx.x) % 32 / 4;
        const int t = int(threadIdx.x) % 4;
        const char * activations = stage_memory(stage) + g * Stages::row_bytes;
#pragma unroll(Tile::tokens > 32 ? 1 : 2)
        for (int eight = 0; eight < Stages::eights; eight++) {
            uint32_t pairs[Tile::sixteens][2][4];
#pragma unroll
            for (int i = 0; i < Tile::sixteens * 2; i++) {
                Weights::values(raw(unit, i), scales[i / 2][i % 2], t, part * Stages::eights + eight, g % 2,
                                pairs[i / 2][i % 2]);
            }
            const char * of_token = activations + activation_place(g, eight, t) * 16;
#pragma unroll
            for (int n = 0; n < Tile::tokens / 8; n++) {
                const uint4 b = *reinterpret_cast<const uint4 *>(of_token + n * 8 * Stages::row_bytes);
#pragma unroll
                for (int i = 0; i < Tile::sixteens; i++) {
                    const uint32_t (&first)[4] = pairs[i][0];
                    const uint32_t (&second)[4] = pairs[i][1];
                    mma_f16(sums[i][n], {first[0], second[0], first[1], second[1]}, {b.x, b.y});
                    mma_f16(sums[i][n], {first[2], second[2], first[3], second[3]}, {b.z, b.w});
                }
            }
        }
    }

    const MatrixParams & p_;
    const ProductRows & rows_;
    const int32_t first_token_;
    const int32_t begin_;
    const int32_t n_units_;
    char * const shared_;
    unsigned misaligned_ = 0;  // a bit for each row of the lane: whether it begins at no multiple of 4
};

}  // namespace orin::cuda
