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
#pragma unroll 1
        for (int i = 0; i < Tile::sixteens * 2; i++) {
            const int row = row_in_tile(i);
            const char * matrix = row < rows.n_together ? rows.weights : rows.second;
            const char * begin = matrix + rows.offset(row % rows.n_together);
            misaligned_ |= unsigned(reinterpret_cast<uintptr_t>(begin) / 2 % 2) << i;
        }
    }

    // Adds to the warp's sums: [sixteens of rows][eights of tokens], as mma_f16 has them.
    __device__ __forceinline__ void add(float (&sums)[Tile::sixteens][Tile::tokens / 8][4]) {
        const int n_stages = n_units_ * Stages::per_unit;
#pragma unroll 1
        for (int stage = 0; stage < Tile::stages - 1; stage++) {
            request(stage, n_stages);
        }
#pragma unroll 1
        for (int unit = 0; unit < n_units_; unit++) {
            TileScales scales[Tile::sixteens][2];
#pragma unroll 1
            for (int part = 0; part < Stages::per_unit; part++) {
                const int stage = unit * Stages::per_unit + part;
                copy_async_wait<Tile::stages - 2>();
                __syncthreads();  // the stage is there, and the one before it is used
                request(stage + Tile::stages - 1, n_stages);
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
        return shared_ + Stages::units * Stages::unit_bytes + stage % Tile::stages * Stages::stage_bytes;
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

    // Calls f(in the tile, where the unit begins, is it the matrix's last row) for every n-th row from `row` on.
    template <int n, int unrolled, typename Function>
    __device__ __forceinline__ void for_rows(int unit, int row, const Function & f) const {
        const ProductRows rows = rows_;
        for (int first = 0; first < Tile::rows; first += rows.n_together) {
            const char * from =
                (first == 0 ? rows.weights : rows.second) + int64_t(begin_ + unit) * Weights::unit_bytes;
#pragma unroll(unrolled > 1 && Tile::tokens > 64 ? 1 : unrolled)
            for (int i = row; i < rows.n_together; i += n) {
                f(first + i, from + rows.offset(i), i >= rows.last);
            }
        }
    }

    // Threads have pieces of a few rows, and of those behind them: addresses cost little. Copies and stores are in
    // loops of their own: one after the other they wait.
    __device__ __forceinline__ void copy_weights(int unit) const {
        constexpr int piece_bytes = Weights::piece_bytes;
        constexpr int n_copies = piece_bytes == 4 ? 2 : 1;  // a thread's of a row
        constexpr int row_threads = (Weights::n_pieces + n_copies - 1) / n_copies;
        constexpr int rows_at_once = product_threads / row_threads;
        const int row = int(threadIdx.x) / row_threads;
        const int piece = int(threadIdx.x) % row_threads;
        if (row >= rows_at_once) {
            return;
        }
        char * to = unit_memory(unit) + Weights::place(piece, row) * piece_bytes;
        const int64_t row_end = int64_t(p_.input.n_values) * Weights::unit_bytes / Weights::unit;
        const int64_t unit_begin = int64_t(begin_ + unit) * Weights::unit_bytes;
        const bool has_last = (n_copies - 1) * row_threads + piece < Weights::n_pieces;
        if (unit_begin + Weights::n_pieces * piece_bytes <= row_end) {
            for_rows<rows_at_once, 4>(unit, row, [&](int in_tile, const char * from, bool) {
                const char * begin = aligned(from) + piece * piece_bytes;
                char * place = to + in_tile * Weights::row_bytes;
#pragma unroll
                for (int i = 0; i < n_copies; i++) {
                    if (i < n_copies - 1 || has_last) {
                        constexpr int distance = row_threads * piece_bytes;
                        copy_async<piece_bytes>(place + i * distance, begin + i * distance);
                    }
                }
            });
            return;
        }
        // Where a row ends: behind a whole unit anything may stand, but behind the matrix is no memory.
        const auto left = int32_t(row_end - unit_begin);
        const bool is_whole = left >= Weights::unit_bytes;
        for_rows<rows_at_once, 1>(unit, row, [&](int in_tile, const char * from, bool is_last) {
            const char * begin = aligned(from);
            char * place = to + in_tile * Weights::row_bytes;
            for (int i = 0; i < n_copies - 1 + int(has_last); i++) {
                const int distance = i * row_threads * piece_bytes;
                const int in_unit = piece * piece_bytes + distance;
                const int left_here = left + int(from - begin) - in_unit;
                if (left_here >= piece_bytes || (is_whole && !is_last)) {
                    copy_async<piece_bytes>(place + distance, begin + in_unit);
                } else {
                    copy_end(place + distance, begin + in_unit, left_here);
                }
            }
        });
    }
    __device__ __forceinline__ static const char * aligned(const char * from) {
        return Weights::piece_bytes == 4 ? from - (reinterpret_cast<uintptr_t>(from) & 2) : from;
    }

    // Zeros behind the row: what is there may be no numbers, or no memory. left: bytes, an even number
    __device__ __forceinline__ static void copy_end(char * place, const char * from, int left) {
        auto * halves = reinterpret_cast<uint16_t *>(place);
#pragma unroll 1
        for (int i = 0; i < Weights::piece_bytes / 2; i++) {
            halves[i] = left > i * 2 ? reinterpret_cast<const uint16_t *>(from)[i] : 0;
        }
    }

    __device__ __forceinline__ void copy_activations(int stage) const {
        constexpr int row_pieces = Stages::row_bytes / 16;
        constexpr int run_pieces = row_pieces / 4;  // of a lane
        constexpr int tokens_at_once = product_threads / row_pieces;
        static_assert(tokens_at_once % 2 == 0);
        const int thread_token = int(threadIdx.x) / row_pieces;
        const int t = int(threadIdx.x) % row_pieces / run_pieces;
        const int piece = int(threadIdx.x) % run_pieces;
        const int value = (begin_ + stage / Stages::per_unit) * Weights::unit + t * (Weights::unit / 4) +
                          (stage % Stages::per_unit * Stages::eights + piece) * 8;
        char * to = stage_memory(stage) + activation_place(thread_token, piece, t) * 16;
        if (value >= p_.input.n_values) {
            for (int token = thread_token; token < Tile::tokens; token += tokens_at_once) {
                *reinterpret_cast<uint4 *>(to + token * Stages::row_bytes) = make_uint4(0, 0, 0, 0);
            }
            return;
        }
        // Tokens behind the last are as that one, and nobody stores their sums.
        const char * from = activation_row(p_.input, first_token_) + int64_t(value) * 2;
        const unsigned row_bytes = unsigned(p_.input.n_values) * 2 + 16;
        const int last = p_.n_tokens - 1 - first_token_;
#pragma unroll 2
        for (int token = thread_token; token < Tile::tokens; token += tokens_at_once) {
            copy_async<16>(to + token * Stages::row_bytes, from + unsigned(min(token, last)) * row_bytes);
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
        // With few tokens decoding is most of the work: what several eights have in common is computed once.
        constexpr unsigned together = Tile::tokens > 32 || Stages::eights < 4 ? 1 : 4;
#pragma unroll 1
        for (unsigned i = 0; i < Stages::eights / together; i++) {
            const unsigned first = unsigned(part) * Stages::eights + i * together;
            TileScales of_four[Tile::sixteens][2];
#pragma unroll
            for (int row = 0; row < Tile::sixteens * 2; row++) {
                of_four[row / 2][row % 2] = Weights::of_four(scales[row / 2][row % 2], first / 4);
            }
#pragma unroll
            for (unsigned k = 0; k < together; k++) {
                const int place = activation_place(g, int(i * together + k), t);
                multiply_eight(unit, first + k, of_four, activations + place * 16, sums);
            }
        }
    }

    // The next eight values of all lanes. activations: the lane's of the first eight tokens
    __device__ __forceinline__ void multiply_eight(int unit, unsigned eight,
                                                   const TileScales (&scales)[Tile::sixteens][2],
                                                   const char * activations,
                                                   float (&sums)[Tile::sixteens][Tile::tokens / 8][4]) const {
        uint32_t pairs[Tile::sixteens][2][4];
#pragma unroll
        for (int i = 0; i < Tile::sixteens * 2; i++) {
            Weights::values(raw(unit, i), scales[i / 2][i % 2], int(threadIdx.x) % 4, eight,
                            int(threadIdx.x) % 32 / 4 % 2, pairs[i / 2][i % 2]);
        }
#pragma unroll
        for (int n = 0; n < Tile::tokens / 8; n++) {
            const uint4 b = *reinterpret_cast<const uint4 *>(activations + n * 8 * Stages::row_bytes);
#pragma unroll
            for (int i = 0; i < Tile::sixteens; i++) {
                const uint32_t (&first)[4] = pairs[i][0];
                const uint32_t (&second)[4] = pairs[i][1];
                mma_f16(sums[i][n], {first[0], second[0], first[1], second[1]}, {b.x, b.y});
                mma_f16(sums[i][n], {first[2], second[2], first[3], second[3]}, {b.z, b.w});
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
