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
    int32_t matrix;       // the first one
    int32_t second_bits;  // 1 for a gate: the lowest bit of a pass names the matrix
    int32_t first_row;
    int32_t n_rows;  // of each matrix
};

__device__ __forceinline__ const WeightMatrix & matrix_of(const MatrixParams & p, int i) {
    return i == 0 ? p.matrices[0] : i == 1 ? p.matrices[1] : p.matrices[2];
}

// The thread's place. What a lane derives from its number stays in registers: the compiler does not know where a
// shuffle has it from, and would work it out anew in each step of a loop.
struct VectorThread {
    int lane;
    int warp;
    int split;  // which of the warps that share rows

    __device__ __forceinline__ explicit VectorThread(const VectorLayout & layout)
        : lane(__shfl_sync(0xFFFFFFFF, int(threadIdx.x % 32), int(threadIdx.x % 32))),
          warp(__shfl_sync(0xFFFFFFFF, int(threadIdx.x / 32), 0)),
          split(warp & (layout.n_splits - 1)) {}
};

// The rows of a pass that a warp has. Rows behind the matrix are its last one.
struct WarpRows {
    const char * first;
    int row_bytes;
    int last;  // index of the last row

    __device__ __forceinline__ void find(const MatrixParams & p, const VectorLayout & layout, const VectorJob & job,
                                         int warp, int pass, int rows_per_warp) {
        const WeightMatrix & matrix = matrix_of(p, job.second_bits == 0 ? job.matrix : pass & 1);
        const int row = job.first_row + row_in_block(layout, job, warp, pass, rows_per_warp);
        row_bytes = int(matrix.row_bytes);
        last = max(job.n_rows - 1 - row, 0);
        first = static_cast<const char *>(matrix.rows) + min(row, job.n_rows - 1) * matrix.row_bytes;
    }

    static __device__ __forceinline__ int row_in_block(const VectorLayout & layout, const VectorJob & job, int warp,
                                                       int pass, int rows_per_warp) {
        const int warps_before = (pass >> job.second_bits) * vector_warps;
        return ((warps_before + warp) >> layout.split_bits) * rows_per_warp;
    }

    // From the first row on, in bytes.
    template <int rows_per_warp>
    __device__ __forceinline__ int offset(int i) const {
        return rows_per_warp == 1 ? 0 : min(i, last) * row_bytes;
    }
};

// Copies are of 16 bytes at multiples of 16: what comes before a row's first byte.
template <int alignment>
__device__ __forceinline__ int bytes_before(const char * row) {
    return alignment == 16 ? 0 : int(reinterpret_cast<uintptr_t>(row) & 15);
}

// Pieces in their order: passes, pieces of a row that are the warp's, rows.
template <WeightType type, int rows_per_warp>
class PieceStream {
    using Piece = PieceOf<type>;
    static constexpr int block_values = weight_block_values(type);
    static constexpr int block_bytes = weight_block_bytes(type);
    static constexpr int nothing = -(1 << 30);
    static_assert(Piece::bytes % 16 == 0);

   public:
    __device__ __forceinline__ PieceStream(const MatrixParams & p, const VectorLayout & layout, const VectorJob & job,
                                           const VectorThread & thread, char * shared)
        : p_(p),
          layout_(layout),
          job_(job),
          thread_(thread),
          slots_(shared + layout.slots + thread.warp * vector_slots * layout.slot_bytes) {
        begin_rows();
    }

    // Begins to copy the next piece, which is of row `row`, to slot i % vector_slots. Behind the last one there is
    // nothing to copy.
    __device__ __forceinline__ void copy(int row, int i) {
        copy_piece(row, slots_ + unsigned(i) % vector_slots * layout_.slot_bytes + thread_.lane * 16);
        copy_async_commit();
        if (row == rows_per_warp - 1) {
            const int step = Piece::bytes * layout_.n_splits;
            from_ += step;
            left_ -= step;
            if (--n_pieces_ <= 0) {
                pass_++;
                begin_rows();
            }
        }
    }

    // Until at most n_left of the pieces that were begun are on their way: then the others can be read. All that was
    // read before is read by now.
    template <int n_left>
    __device__ __forceinline__ void wait() {
        copy_async_wait<n_left>();
        __syncwarp();
    }

    __device__ __forceinline__ const char * piece(int i) const {
        return slots_ + unsigned(i) % vector_slots * layout_.slot_bytes;
    }

   private:
    __device__ __forceinline__ void begin_rows() {
        const int at = thread_.split * Piece::bytes;
        const int row_bytes = int(unsigned(p_.input.n_values) / block_values) * block_bytes;
        rows_.find(p_, layout_, job_, thread_.warp, min(pass_, layout_.n_passes - 1), rows_per_warp);
        n_pieces_ = int((unsigned(row_bytes - at - 1) / Piece::bytes >> layout_.split_bits) + 1);
        from_ = rows_.first + (at + thread_.lane * 16);
        left_ = row_bytes - at - thread_.lane * 16;
        if (pass_ >= layout_.n_passes || at >= row_bytes) {
            left_ = nothing;
        }
    }

    // to: of the lane
    __device__ __forceinline__ void copy_piece(int row, char * to) {
        constexpr int most_before = Piece::alignment == 16 ? 0 : 16 - Piece::alignment;
        constexpr int n = (Piece::bytes + most_before + 511) / 512;
        const char * from = from_ + rows_.template offset<rows_per_warp>(row);
        const int before = bytes_before<Piece::alignment>(from);
        const int n_bytes = min(left_, Piece::bytes - thread_.lane * 16) + before;  // from the lane's first on
        if constexpr (Piece::alignment != 16) {
            from = reinterpret_cast<const char *>(reinterpret_cast<uintptr_t>(from) & ~uintptr_t{15});
            if (n_pieces_ <= 1 && row >= rows_.last) {  // the last row of a matrix may end where memory does
#pragma unroll
                for (int i = 0; i < n; i++) {
                    if (i * 512 < n_bytes) {
                        copy_async_part(to + i * 512, from + i * 512, min(n_bytes - i * 512, 16));
                    }
                }
                return;
            }
        }
#pragma unroll
        for (int i = 0; i < n; i++) {
            if (i * 512 < n_bytes) {
                copy_async<16>(to + i * 512, from + i * 512);
            }
        }
    }

    const MatrixParams & p_;
    const VectorLayout & layout_;
    const VectorJob & job_;
    const VectorThread thread_;
    char * slots_;
    WarpRows rows_;
    const char * from_;  // the lane's 16 bytes of the piece's first row
    int left_;           // bytes from there to the end of the row, or nothing
    int n_pieces_;       // that are left of the warp's in these rows
    int pass_ = 0;
};

}  // namespace orin::cuda
