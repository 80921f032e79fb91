// The part of CUDA's driver that gives reserved addresses memory.
#pragma once

#include <cstddef>

enum CUresult {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
};

enum CUmemAllocationType { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum CUmemLocationType { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum CUmemAccess_flags { CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
enum CUmemAllocationGranularity_flags { CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0 };
enum CUdevice_attribute { CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102 };

using CUdevice = int;
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

CUresult cuInit(unsigned flags);
CUresult cuDeviceGet(CUdevice * device, int ordinal);
CUresult cuDeviceGetAttribute(int * value, CUdevice_attribute attribute, CUdevice device);
CUresult cuGetErrorName(CUresult result, const char ** name);

CUresult cuMemGetAllocationGranularity(size_t * bytes, const CUmemAllocationProp * memory,
                                       CUmemAllocationGranularity_flags which);
CUresult cuMemAddressReserve(CUdeviceptr * first, size_t bytes, size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr first, size_t bytes);
CUresult cuMemCreate(CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp * memory,
                     unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemMap(CUdeviceptr first, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags);
CUresult cuMemSetAccess(CUdeviceptr first, size_t bytes, const CUmemAccessDesc * access, size_t count);
// Does not wait: work that is queued and uses it ends the process when it runs.
CUresult cuMemUnmap(CUdeviceptr first, size_t bytes);

namespace simt {

// Smaller than any GPU's, so that a small test sees memory grow.
constexpr size_t memory_granule = 64 << 10;

// What calls of this name answer, where a test says so.
struct DriverFault {
    const char * call = "";
    CUresult result = CUDA_SUCCESS;
};
inline DriverFault driver_fault;

}  // namespace simt
