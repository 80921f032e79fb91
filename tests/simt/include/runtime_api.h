// The part of CUDA's runtime that launchers and their tests use. There is one stream, and it is always idle.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "../grid.h"
#include "vector_types.h"

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDevice = 101,
};

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };

using cudaStream_t = struct CUstream_st *;

namespace simt {
inline cudaError_t last_error = cudaSuccess;
}

inline const char * cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess:
            return "no error";
        case cudaErrorInvalidValue:
            return "invalid argument";
        case cudaErrorMemoryAllocation:
            return "out of memory";
        case cudaErrorInvalidConfiguration:
            return "invalid configuration argument";
        case cudaErrorInvalidDevice:
            return "invalid device ordinal";
    }
    return "unknown error";
}

inline cudaError_t cudaGetLastError() {
    const cudaError_t error = simt::last_error;
    simt::last_error = cudaSuccess;
    return error;
}

// Exactly as long as asked for, and full of garbage.
inline cudaError_t cudaMalloc(void ** memory, size_t bytes) {
    if (posix_memalign(memory, 256, bytes) != 0) {
        return cudaErrorMemoryAllocation;
    }
    std::memset(*memory, 0xFF, bytes);
    return cudaSuccess;
}

inline cudaError_t cudaFree(void * memory) {
    std::free(memory);
    return cudaSuccess;
}

inline cudaError_t cudaMemcpyAsync(void * to, const void * from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}

inline cudaError_t cudaMemsetAsync(void * memory, int value, size_t bytes, cudaStream_t) {
    std::memset(memory, value, bytes);
    return cudaSuccess;
}

inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return cudaSuccess;
}

inline cudaError_t cudaSetDevice(int device) {
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

inline cudaError_t cudaGetDevice(int * device) {
    *device = 0;
    return cudaSuccess;
}

// Of the board.
inline cudaError_t cudaDeviceGetAttribute(int * value, cudaDeviceAttr, int) {
    *value = 16;
    return cudaSuccess;
}

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel * kernel, cudaFuncAttribute, int bytes) {
    const bool allowed = simt::allow_shared(reinterpret_cast<const void *>(kernel), static_cast<size_t>(bytes));
    return allowed ? cudaSuccess : cudaErrorInvalidValue;
}
