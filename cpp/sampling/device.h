// The rule's arithmetic is compiled for hosts and for GPUs from the same headers.
#pragma once

#ifdef __CUDACC__
#define ORIN_HOST_DEVICE __host__ __device__
#else
#define ORIN_HOST_DEVICE
#endif

namespace orin::sampling {

// One operation, rounded on its own: nvcc would fuse a product with a sum, and can be told to divide less exactly.
// Hosts compile with -ffp-contract=off.

ORIN_HOST_DEVICE inline float product(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

ORIN_HOST_DEVICE inline float quotient(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}

}  // namespace orin::sampling
