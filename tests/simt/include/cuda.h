// The driver's calls that give reserved addresses memory. To touch an address that has none ends the process.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <limits>

enum CUresult {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
};

enum CUmemAllocationType { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum CUmemLocationType { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum CUmemAccess_flags { CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
enum CUmemAllocationGranularity_flags { CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0 };

using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;

struct CUmemLocation {
    CUmemLocationType type;
    int id;
};
struct CUmemAllocationProp {
    CUmemAllocationType type;
    CUmemLocation location;
};
struct CUmemAccessDesc {
    CUmemLocation location;
    CUmemAccess_flags flags;
};

namespace simt {

// Smaller than any GPU's, so that a small test sees memory grow.
constexpr size_t memory_granule = 64 << 10;

// How much memory there is to be mapped.
struct MappedMemory {
    size_t total_bytes = std::numeric_limits<size_t>::max();
    size_t used_bytes = 0;
};
inline MappedMemory mapped_memory;

// What calls of this name answer, where a test says so.
struct DriverFault {
    const char * call = "";
    CUresult result = CUDA_SUCCESS;
};
inline DriverFault driver_fault;

inline CUresult driver_answer(const char * call) {
    return std::strcmp(call, driver_fault.call) == 0 ? driver_fault.result : CUDA_SUCCESS;
}

inline void * address_of(CUdeviceptr pointer) {
    return reinterpret_cast<void *>(pointer);
}

}  // namespace simt

inline CUresult cuGetErrorName(CUresult result, const char ** name) {
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

inline CUresult cuMemGetAllocationGranularity(size_t * bytes, const CUmemAllocationProp *,
                                              CUmemAllocationGranularity_flags) {
    *bytes = simt::memory_granule;
    return simt::driver_answer("cuMemGetAllocationGranularity");
}

inline CUresult cuMemAddressReserve(CUdeviceptr * first, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
    if (bytes == 0 || bytes % simt::memory_granule != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (const CUresult result = simt::driver_answer("cuMemAddressReserve"); result != CUDA_SUCCESS) {
        return result;
    }
    void * memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *first = reinterpret_cast<CUdeviceptr>(memory);
    return memory == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

inline CUresult cuMemAddressFree(CUdeviceptr first, size_t bytes) {
    return munmap(simt::address_of(first), bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// A handle is the size of its memory.
inline CUresult cuMemCreate(CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *,
                            unsigned long long) {
    *handle = bytes;
    if (const CUresult result = simt::driver_answer("cuMemCreate"); result != CUDA_SUCCESS) {
        return result;
    }
    if (bytes > simt::mapped_memory.total_bytes - simt::mapped_memory.used_bytes) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    simt::mapped_memory.used_bytes += bytes;
    return CUDA_SUCCESS;
}

inline CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    simt::mapped_memory.used_bytes -= handle;
    return CUDA_SUCCESS;
}

inline CUresult cuMemMap(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long) {
    return simt::driver_answer("cuMemMap");
}

inline CUresult cuMemSetAccess(CUdeviceptr first, size_t bytes, const CUmemAccessDesc *, size_t) {
    if (const CUresult result = simt::driver_answer("cuMemSetAccess"); result != CUDA_SUCCESS) {
        return result;
    }
    if (mprotect(simt::address_of(first), bytes, PROT_READ | PROT_WRITE) != 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    std::memset(simt::address_of(first), 0xFF, bytes);  // garbage
    return CUDA_SUCCESS;
}

inline CUresult cuMemUnmap(CUdeviceptr first, size_t bytes) {
    // What it held is gone, and nobody may touch it.
    void * memory = simt::address_of(first);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return mmap(memory, bytes, PROT_NONE, flags, -1, 0) == memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
