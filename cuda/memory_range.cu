#include <cuda.h>
#include <cuda_runtime.h>

#include <cstring>
#include <utility>

#include "forget_error.h"
#include "memory_range.h"

namespace orin::cuda {

namespace {

std::string failure(const char * call, CUresult result) {
    const char * name = nullptr;
    cuGetErrorName(result, &name);
    return std::string(call) + ": " + (name == nullptr ? std::to_string(int(result)) : name);
}

std::string failure(const char * call, cudaError_t error) {
    return error == cudaSuccess ? "" : std::string(call) + ": " + cudaGetErrorString(error);
}

CUdeviceptr address(const char * data) {
    return reinterpret_cast<CUdeviceptr>(data);
}

CUmemAllocationProp memory_of(int device) {
    CUmemAllocationProp memory{};
    memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    memory.location.id = device;
    return memory;
}

// Makes the device's context the thread's: any thread may be the first to ask.
std::string enter(int device) {
    const cudaError_t error = cudaSetDevice(device);
    if (error != cudaSuccess) {
        forget_error();
    }
    return failure("cudaSetDevice", error);
}

// Copies bytes to the device and back.
std::string probe_copies(char * memory) {
    constexpr size_t n_bytes = 256;
    char sent[n_bytes];
    char received[n_bytes] = {};
    for (size_t i = 0; i < n_bytes; i++) {
        sent[i] = static_cast<char>(i);
    }
    cudaError_t error = cudaMemcpyAsync(memory, sent, n_bytes, cudaMemcpyHostToDevice, nullptr);
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(received, memory, n_bytes, cudaMemcpyDeviceToHost, nullptr);
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(nullptr);
    }
    if (error != cudaSuccess) {
        forget_error();
        return failure("a copy in memory that was mapped", error);
    }
    return std::memcmp(sent, received, n_bytes) == 0 ? "" : "memory that was mapped does not keep what is written";
}

}  // namespace

std::string probe_memory_range(int device) {
    MemoryRange range;
    std::string problem = range.reserve(device, 1);
    if (problem.empty()) {
        problem = range.commit(1);
    }
    return problem.empty() ? probe_copies(range.data()) : problem;
}

MemoryRange::~MemoryRange() {
    if (data_ != nullptr) {
        give_back(0);
        cuMemAddressFree(address(data_), reserved_bytes_);
    }
}

MemoryRange::MemoryRange(MemoryRange && other) noexcept {
    swap(other);
}

MemoryRange & MemoryRange::operator=(MemoryRange && other) noexcept {
    swap(other);
    return *this;
}

void MemoryRange::swap(MemoryRange & other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(reserved_bytes_, other.reserved_bytes_);
    std::swap(granule_bytes_, other.granule_bytes_);
    std::swap(granules_, other.granules_);
}

std::string MemoryRange::reserve(int device, size_t n_bytes) {
    if (const std::string problem = enter(device); !problem.empty()) {
        return problem;
    }
    const CUmemAllocationProp memory = memory_of(device);
    size_t granule = 0;
    CUresult result = cuMemGetAllocationGranularity(&granule, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS) {
        return failure("cuMemGetAllocationGranularity", result);
    }
    const size_t bytes = (n_bytes + granule - 1) / granule * granule;
    CUdeviceptr first = 0;
    result = cuMemAddressReserve(&first, bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        return failure("cuMemAddressReserve", result);
    }
    device_ = device;
    data_ = reinterpret_cast<char *>(first);
    reserved_bytes_ = bytes;
    granule_bytes_ = granule;
    granules_.reserve(bytes / granule);
    return "";
}

std::string MemoryRange::commit(size_t n_bytes) {
    if (n_bytes <= committed_bytes()) {
        return "";
    }
    const size_t n_before = granules_.size();
    std::string problem = enter(device_);
    while (problem.empty() && committed_bytes() < n_bytes) {
        problem = add_granule();
    }
    while (!problem.empty() && granules_.size() > n_before) {
        remove_granule();
    }
    return problem;
}

void MemoryRange::give_back(size_t n_bytes) {
    if (granules_.empty()) {
        return;
    }
    (void)enter(device_);  // where that fails, the thread's own context has to do
    while (!granules_.empty() && committed_bytes() - granule_bytes_ >= n_bytes) {
        remove_granule();
    }
}

std::string MemoryRange::add_granule() {
    const CUmemAllocationProp memory = memory_of(device_);
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = cuMemCreate(&handle, granule_bytes_, &memory, 0);
    if (result != CUDA_SUCCESS) {
        return failure("cuMemCreate", result);
    }
    const CUdeviceptr place = address(data_ + committed_bytes());
    result = cuMemMap(place, granule_bytes_, 0, handle, 0);
    if (result != CUDA_SUCCESS) {
        cuMemRelease(handle);
        return failure("cuMemMap", result);
    }
    granules_.push_back(handle);
    CUmemAccessDesc access{};
    access.location = memory.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = cuMemSetAccess(place, granule_bytes_, &access, 1);
    if (result != CUDA_SUCCESS) {
        remove_granule();
        return failure("cuMemSetAccess", result);
    }
    return "";
}

// PRECOND: there is one.
void MemoryRange::remove_granule() {
    const CUmemGenericAllocationHandle handle = granules_.back();
    granules_.pop_back();
    cuMemUnmap(address(data_ + committed_bytes()), granule_bytes_);
    cuMemRelease(handle);
}

}  // namespace orin::cuda
