// Who touches the device's memory when and where it must not: the process ends with a line that says so. The argument
// says which; "none" does all that is allowed.
#include <cuda.h>
#include <cuda_runtime.h>

#include <device/launch.cuh>
#include <string>

#include "../../core/check.h"
#include "../device_memory.h"
#include "../stream.h"

namespace {

constexpr size_t granule = simt::memory_granule;

__global__ void set(int * values, int value) {
    values[threadIdx.x] = value;
}

__global__ void sum(const int * values, int * result) {
    *result = values[0] + values[1];
}

CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr first = 0;
    CHECK(cuMemAddressReserve(&first, bytes, 0, 0, 0) == CUDA_SUCCESS);
    return first;
}

CUmemGenericAllocationHandle create() {
    CUmemGenericAllocationHandle memory = 0;
    CHECK(cuMemCreate(&memory, granule, nullptr, 0) == CUDA_SUCCESS);
    return memory;
}

int * map(CUdeviceptr place, CUmemGenericAllocationHandle memory, bool allows = true) {
    CHECK(cuMemMap(place, granule, 0, memory, 0) == CUDA_SUCCESS);
    CHECK(!allows || cuMemSetAccess(place, granule, nullptr, 1) == CUDA_SUCCESS);
    return reinterpret_cast<int *>(place);
}

void launch_set(int * values, int value, cudaStream_t stream = nullptr) {
    ORIN_LAUNCH(set, 1, 2, 0, stream, values, value);
}

int sum_of(const int * values) {
    int result = 0;
    ORIN_LAUNCH(sum, 1, 1, 0, nullptr, values, &result);  // the host's memory is there for the device as well
    return result;
}

void check_what_is_allowed() {
    void * allocated = nullptr;
    CHECK(cudaMalloc(&allocated, granule) == cudaSuccess);
    launch_set(static_cast<int *>(allocated), 3);
    CHECK(sum_of(static_cast<int *>(allocated)) == 6);
    CHECK(cudaFree(allocated) == cudaSuccess && cudaFree(allocated) == cudaErrorInvalidValue);

    // Content stays where the memory goes.
    const CUdeviceptr range = reserve(2 * granule);
    const CUmemGenericAllocationHandle memory = create();
    launch_set(map(range, memory), 4);
    CHECK(cuMemMap(range, granule, 0, memory, 0) == CUDA_ERROR_INVALID_VALUE);  // there is something
    CHECK(cuMemUnmap(range, granule) == CUDA_SUCCESS);
    CHECK(sum_of(map(range + granule, memory)) == 8);
    CHECK(cuMemAddressFree(range, 2 * granule) == CUDA_ERROR_INVALID_VALUE);  // it is in use
    CHECK(cuMemRelease(memory) == CUDA_SUCCESS && cuMemRelease(memory) == CUDA_ERROR_INVALID_VALUE);
    CHECK(sum_of(reinterpret_cast<const int *>(range + granule)) == 8);  // until it is unmapped
    CHECK(cuMemUnmap(range + granule, granule) == CUDA_SUCCESS);
    CHECK(cuMemAddressFree(range, 2 * granule) == CUDA_SUCCESS);
    CHECK(cuMemMap(range, granule, 0, create(), 0) == CUDA_ERROR_INVALID_VALUE);  // no addresses
}

void check_that_memory_ends() {
    auto & memory = simt::DeviceMemory::instance();
    memory.set_total_bytes(memory.used_bytes() + 2 * granule);
    void * half = nullptr;
    void * more = nullptr;
    CUmemGenericAllocationHandle created = 0;
    CHECK(cudaMalloc(&half, granule) == cudaSuccess);
    CHECK(cudaMalloc(&more, granule + 1) == cudaErrorMemoryAllocation && more == nullptr);
    CHECK(cuMemCreate(&created, 2 * granule, nullptr, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemCreate(&created, granule, nullptr, 0) == CUDA_SUCCESS);
    size_t free = 1;
    size_t total = 0;
    CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess && free == 0 && total == memory.total_bytes());
    CHECK(cudaMalloc(&more, 1) == cudaErrorMemoryAllocation);
    CHECK(cuMemRelease(created) == CUDA_SUCCESS && cudaFree(half) == cudaSuccess);
    CHECK(cudaMalloc(&more, 2 * granule) == cudaSuccess && cudaFree(more) == cudaSuccess);
}

}  // namespace

int main(int, char ** arguments) {
    const std::string wanted = arguments[1];
    if (wanted == "none") {
        check_what_is_allowed();
        check_that_memory_ends();
        return 0;
    }
    simt::set_schedule(1);
    void * memory = nullptr;
    cudaStream_t stream = nullptr;
    CHECK(cudaMalloc(&memory, granule) == cudaSuccess && cudaStreamCreate(&stream) == cudaSuccess);
    auto * allocated = static_cast<volatile int *>(memory);
    const CUdeviceptr range = reserve(granule);
    if (wanted == "host reads") {
        launch_set(static_cast<int *>(memory), 1);  // memory that the device has used is closed again
        return *allocated;
    }
    if (wanted == "host writes") {
        *allocated = 1;
    } else if (wanted == "host reads mapped") {
        return *const_cast<volatile int *>(map(range, create()));
    } else if (wanted == "kernel after free") {
        CHECK(cudaFree(memory) == cudaSuccess);
        launch_set(static_cast<int *>(memory), 1);
    } else if (wanted == "kernel before map") {
        launch_set(reinterpret_cast<int *>(range), 1);
    } else if (wanted == "kernel before access") {
        launch_set(map(range, create(), false), 1);
    } else if (wanted == "queued kernel after unmap") {
        launch_set(map(range, create()), 1, stream);
        CHECK(cuMemUnmap(range, granule) == CUDA_SUCCESS);
        CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    }
    return 0;
}
