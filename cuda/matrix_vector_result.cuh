// What becomes of a block's products: each thread has one result.
#pragma once

#include <cuda_runtime.h>

#include "activation_rows.cuh"
#include "gate.cuh"
#include "matrix_vector_stream.cuh"

namespace orin::cuda {

// What is added to products is asked for when the block begins, so that it is there when they are.
template <int columns>
class VectorResult {
   public:
    __device__ __forceinline__ VectorResult(const MatrixParams & p, const VectorLayout & layout, const VectorJob & job)
        : row_in_block_(int(threadIdx.x & ((1u << layout.row_bits) - 1))),
          column_(int(threadIdx.x >> layout.row_bits)),
          row_(job.first_row + row_in_block_),
          is_wanted_(column_ < p.n_tokens && row_ < job.n_rows) {
        if (!is_wanted_) {
            return;
        }
        const float * bias = matrix_of(p, job.matrix).bias;
        bias_ = bias != nullptr ? bias[row_] : 0.0f;
        if (job.second_bits != 0 && p.matrices[1].bias != nullptr) {
            second_bias_ = p.matrices[1].bias[row_];
        }
        if (p.residual != nullptr) {
            residual_ = p.residual[int64_t(column_) * job.n_rows + row_];
        }
    }

    // sums: VectorLayout::results. All threads of the block call it.
    __device__ __forceinline__ void store(const MatrixParams & p, const VectorLayout & layout, const VectorJob & job,
                                          const float * sums) const {
        float result = 0.0f;
        if (is_wanted_) {
            result = product(layout, job, sums, 0) + bias_;
            if (job.second_bits != 0) {
                result = apply_gate(p.gate, result) * (product(layout, job, sums, 1) + second_bias_);
            }
            result += residual_;
        }
        if (p.out_rows.rows == nullptr) {
            if (is_wanted_) {
                matrix_of(p, job.matrix).out[int64_t(column_) * job.n_rows + row_] = result;
            }
        } else {
            store_row_values(p.out_rows, is_wanted_ ? column_ : 0, is_wanted_ ? row_ : -1, {result});
        }
    }

   private:
    __device__ __forceinline__ float product(const VectorLayout & layout, const VectorJob & job, const float * sums,
                                             int matrix) const {
        float sum = 0.0f;
#pragma unroll 1
        for (int split = 0; split < 1 << layout.split_bits; split++) {
            const int of_matrix = ((split << job.second_bits) + matrix) << layout.row_bits;
            sum += sums[(of_matrix + row_in_block_) * columns + column_];
        }
        return sum;
    }

    int row_in_block_;
    int column_;  // token
    int row_;
    bool is_wanted_;
    float bias_ = 0.0f;
    float second_bias_ = 0.0f;
    float residual_ = 0.0f;
};

}  // namespace orin::cuda
