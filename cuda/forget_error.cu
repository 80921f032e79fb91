#include <cuda_runtime.h>

#include "forget_error.h"

namespace orin::cuda {

void forget_error() {
    cudaGetLastError();
}

}  // namespace orin::cuda
