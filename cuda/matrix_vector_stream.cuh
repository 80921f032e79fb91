// The pieces of rows that a warp multiplies, on their way to shared memory while those before them are worked on.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <device/intrinsics.cuh>

#include "matrix_vector_layout.h"
#include "weight_blocks.cuh"

namespace orin::cuda {

// What a block does: rows of one matrix, or of both of a gate.
struct VectorJob {
    int32_t matrix;      // the first one
    int32_t n_matrices;  // 1 or 2
    int32_t first_row;
    int32_t n_rows;  // of each matrix
};

__device__ __forceinline__ const WeightMatrix & matrix_of(const MatrixParams & p, int i) {
    return i == 0 ? p.matrices[0] : i == 1 ? p.matrices[1] : p.matrices[2];
}

// The rows of a pass that a warp has. Rows behind the matrix are its last one.
struct WarpRows {
    const char * first;
    int64_t row_bytes;
    int32_t last;  // index of the last row

    __device__ __forceinline__ WarpRows(const MatrixParams & p, const VectorLayout & layout, const VectorJob & job,
                                        int pass, int rows_per_warp) {
        const bool is_second = job.n_matrices == 2 && pass % 2 == 1;
        const WeightMatrix & matrix = matrix_of(p, is_second ? 1 : job.matrix);
        const int row = job.first_row + row_in_block(layout, job, pass, rows_per_warp);
        row_bytes = matrix.row_bytes;
        first = static_cast<const char *>(matrix.rows) + min(row, job.n_rows - 1) * row_bytes;
        last = max(job.n_rows - 1 - row, 0);
    }

    static __device__ __forceinline__ int row_in_block(const VectorLayout & layout, const VectorJob & job, int pass,
                                                       int rows_per_warp) {
        const int warps_before = pass / job.n_matrices * (vector_warps / layout.n_splits);
        return (warps_before + int(threadIdx.x) / 32 / layout.n_splits) * rows_per_warp;
    }

    __device__ __forceinline__ const char * row(int i) const { return first + min(i, last) * row_bytes; }
};

// Pieces in their order: passes, pieces of a row that are the warp's, rows.
template <WeightType type, int rows_per_warp>
class PieceStream {
    using Piece = PieceOf<type>;
    static constexpr int block_values = weight_block_values(type);
    static constexpr int block_bytes = weight_block_bytes(type);

   public:
    // slots: the warp's
    __device__ __forceinline__ PieceStream(const MatrixParams & p, const VectorLayout & layout, const VectorJob & job,
                                           char * slots)
        : p_(p),
          layout_(layout),
          job_(job),
          slots_(slots),
          tight_bytes_(p.input.n_values / block_values * block_bytes),
          split_(int(threadIdx.x) / 32 % layout.n_splits),
          piece_(split_),
          n_passes_(split_ * Piece::bytes < tight_bytes_ ? layout.n_passes : 0),
          rows_(p, layout, job, 0, rows_per_warp) {}

    // Begins to copy the next piece. Behind the last one there is nothing to copy.
    __device__ __forceinline__ void copy() {
        if (pass_ < n_passes_) {
            copy_piece();
            advance();
        }
        copy_async_commit();
        in_slot_ = next(in_slot_);
    }

    // Until at most n_left of the pieces that were begun are on their way: then the others can be read. All that was
    // read before is read by now.
    template <int n_left>
    __device__ __forceinline__ void wait() {
        copy_async_wait<n_left>();
        __syncwarp();
    }

    // The next piece, which is of row `row`.
    __device__ __forceinline__ const char * take(const char * row) {
        const char * piece = slots_ + out_slot_ * layout_.slot_bytes + misaligned(row);
        out_slot_ = next(out_slot_);
        return piece;
    }

   private:
    static __device__ __forceinline__ int next(int slot) { return (slot + 1) % vector_slots; }

    // Copies are of 16 bytes at multiples of 16.
    static __device__ __forceinline__ int misaligned(const char * row) {
        return Piece::alignment == 16 ? 0 : int(reinterpret_cast<uintptr_t>(row) % 16);
    }

    __device__ __forceinline__ void copy_piece() {
        const char * row = rows_.row(row_);
        const int before = misaligned(row);
        const int at = piece_ * Piece::bytes;
        const int n_bytes = min(tight_bytes_ - at, Piece::bytes) + before;  // from the multiple of 16 on
        const char * from = row + at - before;
        char * to = slots_ + in_slot_ * layout_.slot_bytes;
        // The last row of a matrix may end where memory does.
        const bool is_last = Piece::alignment != 16 && row_ >= rows_.last;
#pragma unroll
        for (int i = 0; i < (Piece::bytes + 15 + 511) / 512; i++) {
            const int offset = i * 512 + int(threadIdx.x) % 32 * 16;
            if (offset < n_bytes) {
                if (is_last) {
                    copy_async_part(to + offset, from + offset, min(n_bytes - offset, 16));
                } else {
                    copy_async<16>(to + offset, from + offset);
                }
            }
        }
    }

    __device__ __forceinline__ void advance() {
        if (++row_ < rows_per_warp) {
            return;
        }
        row_ = 0;
        piece_ += layout_.n_splits;
        if (piece_ * Piece::bytes >= tight_bytes_) {
            piece_ = split_;
            pass_++;
            rows_ = WarpRows(p_, layout_, job_, pass_, rows_per_warp);
        }
    }

    const MatrixParams & p_;
    const VectorLayout & layout_;
    const VectorJob & job_;
    char * slots_;
    int tight_bytes_;
    int split_;
    int piece_;
    int n_passes_;
    int pass_ = 0;
    int row_ = 0;
    int in_slot_ = 0;
    int out_slot_ = 0;
    WarpRows rows_;
};

}  // namespace orin::cuda
