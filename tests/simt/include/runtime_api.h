// The part of CUDA's runtime that launchers, glue and their tests use; what is not here is not emulated. tests/simt
// says in docs/emulation.md what each does.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "../grid.h"
#include "vector_types.h"

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorNotSupported = 801,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
};

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4,
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrIntegrated = 18,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal = 0,
    cudaStreamCaptureModeThreadLocal = 1,
    cudaStreamCaptureModeRelaxed = 2,
};
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1 };

constexpr unsigned cudaStreamDefault = 0;
constexpr unsigned cudaStreamNonBlocking = 1;
constexpr unsigned cudaEventDefault = 0;
constexpr unsigned cudaEventDisableTiming = 2;
constexpr unsigned cudaHostAllocDefault = 0;
constexpr unsigned cudaHostAllocPortable = 1;
constexpr unsigned cudaHostAllocMapped = 2;

using cudaStream_t = struct CUstream_st *;
using cudaEvent_t = struct CUevent_st *;
using cudaGraph_t = struct CUgraph_st *;
using cudaGraphExec_t = struct CUgraphExec_st *;

#define cudaStreamLegacy (reinterpret_cast<cudaStream_t>(1))
#define cudaStreamPerThread (reinterpret_cast<cudaStream_t>(2))

const char * cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

cudaError_t cudaGetDeviceCount(int * count);
cudaError_t cudaGetDevice(int * device);
cudaError_t cudaSetDevice(int device);
// Of the board, but for its memory.
cudaError_t cudaDeviceGetAttribute(int * value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();

cudaError_t cudaMemGetInfo(size_t * free, size_t * total);
cudaError_t cudaMalloc(void ** memory, size_t bytes);
cudaError_t cudaFree(void * memory);
cudaError_t cudaMallocHost(void ** memory, size_t bytes);
cudaError_t cudaHostAlloc(void ** memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void * memory);

// A pinned source is read when the copy is made, any other one now.
cudaError_t cudaMemcpyAsync(void * to, const void * from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void * to, size_t to_pitch, const void * from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy(void * to, const void * from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemsetAsync(void * memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemset(void * memory, int value, size_t bytes);

cudaError_t cudaStreamCreate(cudaStream_t * stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t * stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);

cudaError_t cudaEventCreate(cudaEvent_t * event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t * event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t * graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus * status);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t * executable, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

namespace simt {

// The next n-th call that may fail does nothing and fails; with for_ever all calls after it, too. 0: none does.
void fail_call(int64_t n, bool for_ever);
// What a call begins with: the error that it was asked for, or none.
cudaError_t next_failure();
// The runtime keeps an error until cudaGetLastError() is asked, whatever succeeds meanwhile.
void set_last_error(cudaError_t error);
// Queues `run`, which is what `name` says, as a kernel's launch would.
void enqueue_in(cudaStream_t stream, const char * name, std::function<void()> run);

template <typename Work>
cudaError_t runtime_call(const Work & work) {
    cudaError_t error = next_failure();
    if (error == cudaSuccess) {
        error = work();
    }
    if (error != cudaSuccess) {
        set_last_error(error);
    }
    return error;
}

}  // namespace simt

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel * kernel, cudaFuncAttribute, int bytes) {
    return simt::runtime_call([&] {
        const bool allowed = simt::allow_shared(reinterpret_cast<const void *>(kernel), static_cast<size_t>(bytes));
        return allowed ? cudaSuccess : cudaErrorInvalidValue;
    });
}
