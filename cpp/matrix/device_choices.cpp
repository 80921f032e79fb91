#include "device_choices.h"

#include <stdexcept>
#include <string>

#ifdef ORIN_CUDA
#include "../../cuda/multiprocessors.h"
#include "../kv/device_ordinal.h"
#endif

namespace orin {

#ifdef ORIN_CUDA

namespace {

void check(cudaError_t error) {
    if (error != cudaSuccess) {
        throw std::runtime_error(std::string("the GPU does not tell what it is: ") + cudaGetErrorString(error));
    }
}

}  // namespace

MatrixChoices choices_for(ggml_backend_dev_t gpu) {
    const int device = device_ordinal(gpu);
    int major = 0;
    int minor = 0;
    int32_t n_multiprocessors = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    check(cuda::count_multiprocessors(device, n_multiprocessors));
    return default_choices(major * 10 + minor, n_multiprocessors);
}

#else

MatrixChoices choices_for(ggml_backend_dev_t) {
    throw std::runtime_error("this build has no CUDA");
}

#endif

}  // namespace orin
