// The runtime's errors and what it says of the device.
#include <atomic>

#include "counters.h"
#include "runtime_handles.h"

using namespace simt;

namespace {

thread_local cudaError_t last_error = cudaSuccess;
std::atomic<int64_t> calls_until_failure{0};
std::atomic<bool> is_lost{false};  // from the failure on
std::atomic<bool> loses_device{false};
std::atomic<bool> integrated{false};

}  // namespace

void simt::fail_call(int64_t n, bool for_ever) {
    is_lost = false;
    loses_device = for_ever;
    calls_until_failure = n;
}

cudaError_t simt::next_failure() {
    if (calls_until_failure > 0 && --calls_until_failure == 0) {
        count("asked_failures");
        is_lost = loses_device.load();
        return is_lost ? cudaErrorIllegalAddress : cudaErrorMemoryAllocation;
    }
    return is_lost ? cudaErrorIllegalAddress : cudaSuccess;
}

void simt::set_last_error(cudaError_t error) {
    last_error = error;
}

void simt::set_integrated(bool is_integrated) {
    integrated = is_integrated;
}

bool simt::is_integrated() {
    return integrated;
}

const char * cudaGetErrorString(cudaError_t error) {
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
        case cudaErrorInvalidResourceHandle:
            return "invalid resource handle";
        case cudaErrorNotReady:
            return "device not ready";
        case cudaErrorIllegalAddress:
            return "an illegal memory access was encountered";
        case cudaErrorNotSupported:
            return "operation not supported";
        case cudaErrorStreamCaptureUnsupported:
            return "operation not permitted when stream is capturing";
        case cudaErrorStreamCaptureInvalidated:
            return "operation failed due to a previous error during capture";
    }
    return "unknown error";
}

cudaError_t cudaGetLastError() {
    const cudaError_t error = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError() {
    return is_lost ? cudaErrorIllegalAddress : last_error;
}

cudaError_t cudaGetDeviceCount(int * count) {
    return runtime_call([&] {
        *count = 1;
        return cudaSuccess;
    });
}

cudaError_t cudaGetDevice(int * device) {
    return runtime_call([&] {
        *device = 0;
        return cudaSuccess;
    });
}

cudaError_t cudaSetDevice(int device) {
    return runtime_call([&] { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t cudaDeviceGetAttribute(int * value, cudaDeviceAttr attribute, int) {
    return runtime_call([&] {
        switch (attribute) {
            case cudaDevAttrMultiProcessorCount:
                *value = 16;
                return cudaSuccess;
            case cudaDevAttrIntegrated:
                *value = integrated ? 1 : 0;
                return cudaSuccess;
            case cudaDevAttrComputeCapabilityMajor:
                *value = 8;
                return cudaSuccess;
            case cudaDevAttrComputeCapabilityMinor:
                *value = 7;
                return cudaSuccess;
        }
        return cudaErrorInvalidValue;
    });
}

cudaError_t cudaDeviceSynchronize() {
    return runtime_call([&] {
        count("device_synchronizes");
        finish_all();
        return cudaSuccess;
    });
}
