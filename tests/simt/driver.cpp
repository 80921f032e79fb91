// The driver's calls.
#include <cstring>

#include "device_memory.h"
#include "include/cuda.h"
#include "stream.h"

using namespace simt;

namespace {

// A handle is the memory's place, and one more, so that none is 0.
int64_t place_of(CUmemGenericAllocationHandle handle) {
    return static_cast<int64_t>(handle) - 1;
}

void * address_of(CUdeviceptr pointer) {
    return reinterpret_cast<void *>(pointer);
}

bool is_whole(size_t bytes) {
    return bytes != 0 && bytes % memory_granule == 0;
}

// Does `work` unless a test wants the call to fail.
template <typename Work>
CUresult answer(const char * call, const Work & work) {
    const DeviceLock lock(device_lock());
    if (std::strcmp(call, driver_fault.call) == 0) {
        return driver_fault.result;
    }
    return work() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuInit(unsigned) {
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice * device, int ordinal) {
    *device = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetAttribute(int * value, CUdevice_attribute, CUdevice) {
    return answer("cuDeviceGetAttribute", [&] { return *value = 1; });
}

CUresult cuGetErrorName(CUresult result, const char ** name) {
    switch (result) {
        case CUDA_SUCCESS:
            *name = "CUDA_SUCCESS";
            break;
        case CUDA_ERROR_INVALID_VALUE:
            *name = "CUDA_ERROR_INVALID_VALUE";
            break;
        case CUDA_ERROR_OUT_OF_MEMORY:
            *name = "CUDA_ERROR_OUT_OF_MEMORY";
            break;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t * bytes, const CUmemAllocationProp *, CUmemAllocationGranularity_flags) {
    return answer("cuMemGetAllocationGranularity", [&] { return *bytes = memory_granule; });
}

CUresult cuMemAddressReserve(CUdeviceptr * first, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
    return answer("cuMemAddressReserve", [&] {
        *first = reinterpret_cast<CUdeviceptr>(is_whole(bytes) ? DeviceMemory::instance().reserve(bytes) : nullptr);
        return *first != 0;
    });
}

CUresult cuMemAddressFree(CUdeviceptr first, size_t bytes) {
    return answer("cuMemAddressFree", [&] { return DeviceMemory::instance().unreserve(address_of(first), bytes); });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *,
                     unsigned long long) {
    bool has_room = true;
    const CUresult result = answer("cuMemCreate", [&] {
        const int64_t place = is_whole(bytes) ? DeviceMemory::instance().create(bytes) : -1;
        has_room = place >= 0 || !is_whole(bytes);
        *handle = static_cast<CUmemGenericAllocationHandle>(place + 1);
        return place >= 0;
    });
    return has_room ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    return answer("cuMemRelease", [&] { return DeviceMemory::instance().release(place_of(handle)); });
}

CUresult cuMemMap(CUdeviceptr first, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
    return answer("cuMemMap", [&] {
        return is_whole(bytes) && DeviceMemory::instance().map(address_of(first), bytes, place_of(handle), offset);
    });
}

CUresult cuMemSetAccess(CUdeviceptr first, size_t bytes, const CUmemAccessDesc *, size_t) {
    return answer("cuMemSetAccess", [&] { return DeviceMemory::instance().allow(address_of(first), bytes); });
}

CUresult cuMemUnmap(CUdeviceptr first, size_t bytes) {
    return answer("cuMemUnmap", [&] { return DeviceMemory::instance().unmap(address_of(first), bytes); });
}
