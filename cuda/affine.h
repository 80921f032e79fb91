// y = scale * x + bias on float vectors: the smallest kernel that a custom op can have.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace orin::cuda {

struct AffineParams {
    const float * x;  // [n], device
    float * y;        // [n], device; may be x
    int64_t n;
    float scale;
    float bias;
};

// Returns cudaErrorInvalidValue for n < 0 and for null vectors that are not empty.
cudaError_t affine(const AffineParams & params, cudaStream_t stream);

}  // namespace orin::cuda
