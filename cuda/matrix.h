// Products of weight matrices with the activations of a step's tokens: what both kernels for them are told.
// cuda/matrix_vector.h is for few tokens, cuda/matrix_product.h for many.
//
//   out[token, row] = Σ weights[row, i] · input[token, i] + bias[row] + residual[token, row]
//
// or, with a gate, activation(first[token, row]) · second[token, row], each with its bias.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "activation_rows.h"
#include "weight_type.h"

namespace orin::cuda {

constexpr int32_t weight_block_values(WeightType type) {
    switch (type) {
        case WeightType::f16:
            return 1;
        case WeightType::q8_0:
        case WeightType::q4_0:
        case WeightType::q4_1:
            return 32;
        case WeightType::q4_K:
        case WeightType::q5_K:
        case WeightType::q6_K:
            return 256;
    }
    return 0;
}

constexpr int32_t weight_block_bytes(WeightType type) {
    switch (type) {
        case WeightType::f16:
            return 2;
        case WeightType::q8_0:
            return 34;
        case WeightType::q4_0:
            return 18;
        case WeightType::q4_1:
            return 20;
        case WeightType::q4_K:
            return 144;
        case WeightType::q5_K:
            return 176;
        case WeightType::q6_K:
            return 210;
    }
    return 0;
}

struct WeightMatrix {
    WeightType type;
    const void * rows;  // [n_rows, input.n_values]
    int64_t row_bytes;  // from row to row
    int32_t n_rows;
    const float * bias;  // [n_rows], or null
    float * out;         // [n_tokens, n_rows]
};

constexpr int32_t max_matrices = 3;

// How a gate's activation turns the first of two products.
enum class Gate : int32_t { none, silu, gelu, gelu_erf, gelu_quick, relu };

// All pointers are of the device.
struct MatrixParams {
    ActivationRows input;  // [n_tokens]
    int32_t n_tokens;
    int32_t n_matrices;  // that read the input: one launch
    WeightMatrix matrices[max_matrices];

    Gate gate;               // with one: two matrices with as many rows, and only the first one's `out` is written
    const float * residual;  // [n_tokens, n_rows], with one matrix or a gate; or null. It may be the memory of `out`
    // Where its rows are not null the results of one matrix, or of a gate, go there instead: ready for the next product
    ActivationRows out_rows;

    // How the launch is cut; see the kernels.
    int32_t rows_per_warp;
    int32_t n_splits;    // parts that rows of weights are cut into, for as many blocks, or warps of one
    float * workspace;   // null without splits; what it holds does not matter
    int32_t * counters;  // zeros; a launch leaves zeros
};

}  // namespace orin::cuda
