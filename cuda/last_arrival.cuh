// Which of several thread blocks is the last to write its part: it goes on with those of all.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace orin::cuda {

// Whether the parts of all n blocks are written and can be read. All threads of a block call it, once its part is
// written. arrived: 0 before the first one, and after the last; is_last: a word of shared memory
__device__ __forceinline__ bool arrive_last(int32_t * arrived, int n, int32_t * is_last) {
    __syncthreads();  // all of the block's part is written
    if (threadIdx.x == 0) {
        __threadfence();
        *is_last = atomicAdd(arrived, 1) == n - 1;
        if (*is_last != 0) {
            *arrived = 0;  // for the next launch
        }
        __threadfence();
    }
    __syncthreads();
    return *is_last != 0;
}

}  // namespace orin::cuda
