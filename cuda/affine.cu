#include <algorithm>
#include <device/launch.cuh>

#include "affine.h"

namespace orin::cuda {

namespace {

constexpr int block_threads = 256;
constexpr int64_t max_blocks = 1024;  // longer vectors are strided over

__global__ void affine_kernel(AffineParams p) {
    const int64_t stride = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < p.n; i += stride) {
        p.y[i] = p.scale * p.x[i] + p.bias;
    }
}

}  // namespace

cudaError_t affine(const AffineParams & params, cudaStream_t stream) {
    if (params.n < 0 || (params.n > 0 && (params.x == nullptr || params.y == nullptr))) {
        return cudaErrorInvalidValue;
    }
    if (params.n == 0) {
        return cudaSuccess;
    }
    const int64_t blocks = std::min((params.n + block_threads - 1) / block_threads, max_blocks);
    ORIN_LAUNCH(affine_kernel, unsigned(blocks), block_threads, 0, stream, params);
    return cudaGetLastError();
}

}  // namespace orin::cuda
