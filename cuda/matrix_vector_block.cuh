// What a block of matrix_vector does for one type of weights: products of its rows with all tokens.
#pragma once

#include <cuda_runtime.h>

#include "matrix_vector_activations.cuh"
#include "matrix_vector_stream.cuh"

namespace orin::cuda {

// n sums over the warp, n a power of two up to 32. Afterwards lane i · 32 / n has the i-th in values[0].
template <int n, int distance = 16, int n_values>
__device__ __forceinline__ void sum_over_warp(float (&values)[n_values], int lane) {
    if constexpr (n > 1) {
        const bool is_upper = (lane & distance) != 0;
#pragma unroll
        for (int i = 0; i < n / 2; i++) {
            const float kept = is_upper ? values[i + n / 2] : values[i];
            const float given = is_upper ? values[i] : values[i + n / 2];
            values[i] = kept + __shfl_xor_sync(0xFFFFFFFF, given, distance);
        }
    } else {
        values[0] += __shfl_xor_sync(0xFFFFFFFF, values[0], distance);
    }
    if constexpr (distance > 1) {
        sum_over_warp<(n > 1 ? n / 2 : 1), distance / 2>(values, lane);
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
          thread_(layout),
          shared_(shared),
          stream_(p, layout, job, thread_, shared) {}

    __device__ __forceinline__ void run() {
        const int n_values = p_.input.n_values;
        // Activations come behind the first weights, which have the longer way.
#pragma unroll 1
        for (int i = 0; i < ahead; i++) {
            if (i == 1) {
                copy_activations<type>(p_, layout_, 0, min(layout_.panel_values, n_values), shared_);
            }
            stream_.copy(i % rows_per_warp, i);
        }
        store_groups<type, columns>(p_, layout_, 0, min(layout_.panel_values, n_values), shared_);
        copy_async_wait<ahead - 2>();
        __syncthreads();
#pragma unroll 1
        for (int pass = 0; pass < layout_.n_passes; pass++) {
            add_rows(pass);
        }
        copy_async_wait<0>();
    }

   private:
    __device__ __forceinline__ void add_rows(int pass) {
        const int n_values = p_.input.n_values;
        begin_rows(pass);
        float sums[rows_per_warp * columns] = {};
        int at = thread_.split * Piece::values;
#pragma unroll 1
        for (int first = 0; first < n_values; first += layout_.panel_values) {
            const int n = min(layout_.panel_values, n_values - first);
            if (n < n_values && (pass > 0 || first > 0)) {
                __syncthreads();  // nobody reads the last panel any more
                copy_activations<type>(p_, layout_, first, n, shared_);
                copy_async_commit();
                store_groups<type, columns>(p_, layout_, first, n, shared_);
                copy_async_wait<0>();
                __syncthreads();
            }
#pragma unroll 1
            for (; at < first + n; at += Piece::values * layout_.n_splits) {
                add_pieces(at - first, n_values - at, sums);
            }
        }
        store(pass, sums);
    }

    __device__ __forceinline__ void begin_rows(int pass) {
        if constexpr (Piece::alignment != 16) {
            WarpRows rows;
            rows.find(p_, layout_, job_, thread_.warp, pass, rows_per_warp);
#pragma unroll
            for (int r = 0; r < rows_per_warp; r++) {
                before_[r] = bytes_before<Piece::alignment>(rows.first + rows.offset<rows_per_warp>(r));
            }
        }
    }

    // at: of the piece in the panel; n_left: values from there to the end of the row
    __device__ __forceinline__ void add_pieces(int at, int n_left, float (&sums)[rows_per_warp * columns]) {
        const int lane = thread_.lane;
        const bool takes_part = lane * Piece::lane_values < n_left;
        typename Piece::Weights weights[rows_at_once];
        typename Piece::Activations x;
        if constexpr (columns == 1) {
#pragma unroll
            for (int r = 0; r < rows_per_warp; r++) {
                stream_.template wait<ahead - 1>();
                const char * piece = take(r);
                if (takes_part) {
                    if (r == 0) {
                        x.load(activations(0, at), lane, n_left);
                    }
                    weights[0].read(piece, lane, n_left);
                    sums[r] = weights[0].add(sums[r], x);
                }
            }
        } else {
            stream_.template wait<ahead - rows_at_once>();
#pragma unroll
            for (int r = 0; r < rows_per_warp; r++) {
                const char * piece = take(r);
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
        n_taken_ += rows_per_warp;
    }

    // The next piece, which is of row r, while another one begins to come.
    __device__ __forceinline__ const char * take(int r) {
        const int i = rows_per_warp % vector_slots == 0 ? r : n_taken_ + r;
        stream_.copy((r + ahead) % rows_per_warp, i + ahead);
        return stream_.piece(i) + before_[r];
    }

    __device__ __forceinline__ const char * activations(int token, int at) const {
        const unsigned i = unsigned(token * layout_.panel_values + at);
        return shared_ + (type == WeightType::f16 ? i * 4 : i / record_values * sizeof(ActivationRecord));
    }

    __device__ __forceinline__ void store(int pass, float (&sums)[rows_per_warp * columns]) {
        constexpr int lanes = 32 / (rows_per_warp * columns);
        sum_over_warp<rows_per_warp * columns>(sums, thread_.lane);
        if (thread_.lane % lanes == 0) {
            const int matrix = (thread_.split << job_.second_bits) + (pass & job_.second_bits);
            const int row = WarpRows::row_in_block(layout_, job_, thread_.warp, pass, rows_per_warp);
            auto * results = reinterpret_cast<float *>(shared_ + layout_.results);
            results[((matrix << layout_.row_bits) + row) * columns + thread_.lane / lanes] = sums[0];
        }
    }

    const MatrixParams & p_;
    const VectorLayout & layout_;
    const VectorJob & job_;
    const VectorThread thread_;
    char * shared_;
    PieceStream<type, rows_per_warp> stream_;
    int n_taken_ = 0;
    int before_[rows_per_warp] = {};  // of each row's pieces
};

}  // namespace orin::cuda
