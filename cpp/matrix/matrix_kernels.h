// Which of the kernels for products computes a launch, and how it is cut.
#pragma once

#include <cstddef>

#ifdef ORIN_CUDA
#include "../../cuda/matrix.h"
#include "matrix_setup.h"
#endif

namespace orin {

// What a launch works in.
struct MatrixMemory {
    size_t workspace_bytes;
    size_t counter_bytes;
};

#ifdef ORIN_CUDA

// Says how a launch is cut. PRECOND: can_compute; pointers may be null.
void cut(cuda::MatrixParams & params, const MatrixSetup & setup);

// Whether a kernel computes it, however it is cut: by the form of its input one for few tokens, or one for many.
bool can_compute(cuda::MatrixParams params);

cudaError_t compute(const cuda::MatrixParams & params, cudaStream_t stream);

// PRECOND: can_compute
MatrixMemory memory_for(const cuda::MatrixParams & params);
#endif

}  // namespace orin
