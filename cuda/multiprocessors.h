// How many multiprocessors a launch can count on.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace orin::cuda {

// Of the device of this ordinal, as far as this process may use them (MPS may limit it).
inline cudaError_t count_multiprocessors(int device, int32_t & n) {
    int found = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device);
    n = found;
    return error;
}

}  // namespace orin::cuda
