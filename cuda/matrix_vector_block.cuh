// What a block of matrix_vector does for one type of weights: products of its rows with all tokens.
#pragma once

#include <cuda_runtime.h>

#include "activation_rows.cuh"
#include "matrix_vector_stream.cuh"

namespace orin::cuda {

// Activations [first, first + n) of all tokens go to shared memory, [n_tokens, bytes of a panel].
template <WeightType type>
__device__ void stage_activations(const MatrixParams & p, const VectorLayout & layout, int first, int n, char * panel) {
    for (int token = 0; token < p.n_tokens; token++) {
        const char * row = activation_row(p.input, token);
        if constexpr (type == WeightType::f16) {
            const auto * from = reinterpret_cast<const float4 *>(row) + first / 4;
            auto * to = reinterpret_cast<float4 *>(panel) + token * layout.panel_values / 4;
            for (int i = threadIdx.x; i < n / 4; i += vector_threads) {
                to[i] = from[i];
            }
        } else {
            auto * records = reinterpret_cast<ActivationRecord *>(panel) + token * layout.panel_values / record_values;
            const auto * from = reinterpret_cast<const uint4 *>(row + first);
            for (int i = threadIdx.x; i < n / 16; i += vector_threads) {
                records[i / 4].values[i % 4] = from[i];
            }
            const RowGroup * groups = row_groups(row, p.input.n_values) + first / row_group_values;
            for (int i = threadIdx.x; i < n / row_group_values; i += vector_threads) {
                const RowGroup group = groups[i];
                uint32_t sum = __float_as_uint(group.sums[0] + group.sums[1]);
                if constexpr (type == WeightType::q6_K) {
                    const bool is_number = group.scale > 0.0f && group.scale <= 3.4e38f;
                    const float inverse = is_number ? 1.0f / group.scale : 0.0f;
                    const int low = is_number ? __float2int_rn(group.sums[0] * inverse) : 0;
                    const int high = is_number ? __float2int_rn(group.sums[1] * inverse) : 0;
                    sum = (uint32_t(low) & 0xFFFF) | uint32_t(high) << 16;
                }
                records[i / 2].groups[i % 2] = {group.scale, sum};
            }
        }
    }
}

// n sums over the warp. Afterwards lane i · 32 / n has the i-th in values[0]. n: a power of two up to 32
template <int n>
__device__ __forceinline__ void sum_over_warp(float (&values)[n]) {
    const int lane = int(threadIdx.x) % 32;
    int distance = 16;
#pragma unroll
    for (int count = n / 2; count > 0; count /= 2, distance /= 2) {
        const bool is_upper = (lane & distance) != 0;
#pragma unroll
        for (int i = 0; i < count; i++) {
            const float kept = is_upper ? values[i + count] : values[i];
            const float given = is_upper ? values[i] : values[i + count];
            values[i] = kept + __shfl_xor_sync(0xFFFFFFFF, given, distance);
        }
    }
    for (; distance > 0; distance /= 2) {
        values[0] += __shfl_xor_sync(0xFFFFFFFF, values[0], distance);
    }
}

template <WeightType type, int rows_per_warp, int columns>
class VectorBlock {
    using Piece = PieceOf<type>;
    // With one token its activations stay in registers while rows come one after the other; with more, the weights of
    // all rows do while tokens come.
    static constexpr int rows_at_once = columns == 1 ? 1 : rows_per_warp;
    static constexpr int ahead = vector_slots - rows_at_once;

   public:
    __device__ __forceinline__ VectorBlock(const MatrixParams & p, const VectorLayout & layout, const VectorJob & job,
                                           char * shared)
        : p_(p),
          layout_(layout),
          job_(job),
          shared_(shared),
          stream_(p, layout, job, shared + layout.slots + int(threadIdx.x) / 32 * vector_slots * layout.slot_bytes) {}

    __device__ __forceinline__ void run() {
        for (int i = 0; i < ahead; i++) {
            stream_.copy();
        }
        for (int pass = 0; pass < layout_.n_passes; pass++) {
            const WarpRows rows(p_, layout_, job_, pass, rows_per_warp);
            float sums[rows_per_warp * columns] = {};
            for (int first = 0; first < p_.input.n_values; first += layout_.panel_values) {
                const int n = min(layout_.panel_values, p_.input.n_values - first);
                if (pass == 0 || layout_.panel_values < p_.input.n_values) {
                    __syncthreads();  // nobody reads the last panel any more
                    stage_activations<type>(p_, layout_, first, n, shared_);
                    __syncthreads();
                }
                add_panel(rows, first, n, sums);
            }
            store(pass, sums);
        }
        copy_async_wait<0>();
    }

   private:
    __device__ __forceinline__ int split() const { return int(threadIdx.x) / 32 % layout_.n_splits; }

    __device__ __forceinline__ void add_panel(const WarpRows & rows, int first, int n,
                                              float (&sums)[rows_per_warp * columns]) {
        const int n_splits = layout_.n_splits;
        const int before = first / Piece::values;
        // The warp's first piece at or behind the panel's first one.
        int piece = before + (split() + n_splits - before % n_splits) % n_splits;
        for (; piece * Piece::values < first + n; piece += n_splits) {
            add_pieces(rows, piece * Piece::values - first, p_.input.n_values - piece * Piece::values, sums);
        }
    }

    // at: of the piece in the panel; n_left: values from there to the end of the row
    __device__ __forceinline__ void add_pieces(const WarpRows & rows, int at, int n_left,
                                               float (&sums)[rows_per_warp * columns]) {
        const int lane = int(threadIdx.x) % 32;
        const bool takes_part = lane * Piece::lane_values < n_left;
        typename Piece::Weights weights[rows_at_once];
        typename Piece::Activations x;
        if constexpr (columns == 1) {
            if (takes_part) {
                x.load(activations(0, at), lane, n_left);
            }
#pragma unroll
            for (int r = 0; r < rows_per_warp; r++) {
                stream_.template wait<ahead - 1>();
                stream_.copy();
                const char * piece = stream_.take(rows.row(r));
                if (takes_part) {
                    weights[0].read(piece, lane, n_left);
                    sums[r] = weights[0].add(sums[r], x);
                }
            }
        } else {
            stream_.template wait<ahead - rows_at_once>();
#pragma unroll
            for (int r = 0; r < rows_per_warp; r++) {
                stream_.copy();
            }
#pragma unroll
            for (int r = 0; r < rows_per_warp; r++) {
                const char * piece = stream_.take(rows.row(r));
                if (takes_part) {
                    weights[r].read(piece, lane, n_left);
                }
            }
#pragma unroll
            for (int column = 0; column < columns; column++) {
                if (takes_part && column < p_.n_tokens) {
                    x.load(activations(column, at), lane, n_left);
#pragma unroll
                    for (int r = 0; r < rows_per_warp; r++) {
                        sums[r * columns + column] = weights[r].add(sums[r * columns + column], x);
                    }
                }
            }
        }
    }

    __device__ __forceinline__ const char * activations(int token, int at) const {
        const int i = token * layout_.panel_values + at;
        return shared_ + (type == WeightType::f16 ? i * 4 : i / record_values * int(sizeof(ActivationRecord)));
    }

    __device__ __forceinline__ void store(int pass, float (&sums)[rows_per_warp * columns]) {
        constexpr int lanes = 32 / (rows_per_warp * columns);
        sum_over_warp(sums);
        const int lane = int(threadIdx.x) % 32;
        if (lane % lanes == 0) {
            const int matrix = job_.n_matrices == 2 ? pass % 2 : 0;
            const int row = WarpRows::row_in_block(layout_, job_, pass, rows_per_warp);
            const int i = (split() * job_.n_matrices + matrix) * layout_.rows_per_block + row;
            auto * results = reinterpret_cast<float *>(shared_ + layout_.results);
            results[i * columns + lane / lanes] = sums[0];
        }
    }

    const MatrixParams & p_;
    const VectorLayout & layout_;
    const VectorJob & job_;
    char * shared_;
    PieceStream<type, rows_per_warp> stream_;
};

}  // namespace orin::cuda
