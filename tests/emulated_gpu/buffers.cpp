#include "buffers.h"

#include <cuda_runtime.h>

#include "../simt/counters.h"
#include "device.h"
#include "ggml-backend-impl.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"

namespace emulated_gpu {
namespace {

constexpr size_t alignment = 128;
constexpr int64_t row_padding = 512;  // elements that kernels read behind quantized rows

// --- the device's

char * data_of(const ggml_tensor * tensor) {
    return static_cast<char *>(tensor->data);
}

void wait() {
    check(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize");
}

void free_buffer(ggml_backend_buffer_t buffer) {
    check(cudaFree(buffer->context), "cudaFree");
}

void * get_base(ggml_backend_buffer_t buffer) {
    return buffer->context;
}

ggml_status init_tensor(ggml_backend_buffer_t buffer, ggml_tensor * tensor) {
    const size_t bytes = ggml_nbytes(tensor);
    const size_t whole = ggml_backend_buft_get_alloc_size(buffer->buft, tensor);
    if (ggml_is_quantized(tensor->type) && tensor->view_src == nullptr && whole > bytes &&
        buffer->usage != GGML_BACKEND_BUFFER_USAGE_COMPUTE) {
        check(cudaMemset(data_of(tensor) + bytes, 0, whole - bytes), "cudaMemset");
    }
    return GGML_STATUS_SUCCESS;
}

void memset_tensor(ggml_backend_buffer_t, ggml_tensor * tensor, uint8_t value, size_t offset, size_t bytes) {
    check(cudaMemsetAsync(data_of(tensor) + offset, value, bytes, cudaStreamPerThread), "cudaMemsetAsync");
    wait();
}

void set_tensor(ggml_backend_buffer_t, ggml_tensor * tensor, const void * data, size_t offset, size_t bytes) {
    simt::count("blocking_sets");
    const auto kind = cudaMemcpyHostToDevice;
    check(cudaMemcpyAsync(data_of(tensor) + offset, data, bytes, kind, cudaStreamPerThread), "copy to the device");
    wait();
}

void get_tensor(ggml_backend_buffer_t, const ggml_tensor * tensor, void * data, size_t offset, size_t bytes) {
    simt::count("blocking_gets");
    const auto kind = cudaMemcpyDeviceToHost;
    check(cudaMemcpyAsync(data, data_of(tensor) + offset, bytes, kind, cudaStreamPerThread), "copy to the host");
    wait();
}

bool copy_tensor(ggml_backend_buffer_t, const ggml_tensor * from, ggml_tensor * to) {
    if (!is_device_buffer(from->buffer)) {
        return false;
    }
    const auto kind = cudaMemcpyDeviceToDevice;
    check(cudaMemcpyAsync(to->data, from->data, ggml_nbytes(from), kind, cudaStreamPerThread), "copy on the device");
    wait();
    return true;
}

void clear(ggml_backend_buffer_t buffer, uint8_t value) {
    check(cudaMemsetAsync(buffer->context, value, buffer->size, cudaStreamPerThread), "cudaMemsetAsync");
    wait();
}

const ggml_backend_buffer_i buffer_functions = {
    free_buffer, get_base, init_tensor, memset_tensor, set_tensor, get_tensor,
    nullptr,     nullptr,  copy_tensor, clear,         nullptr,
};

const char * buffer_type_name(ggml_backend_buffer_type_t) {
    return "CUDA0";
}

ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t bytes) {
    void * memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, bytes);
    if (error != cudaSuccess) {
        cudaGetLastError();
        GGML_LOG_ERROR("allocating %.2f MiB on the emulated GPU: %s\n", static_cast<double>(bytes) / (1 << 20),
                       cudaGetErrorString(error));
        return nullptr;
    }
    return ggml_backend_buffer_init(type, buffer_functions, memory, bytes);
}

size_t get_alignment(ggml_backend_buffer_type_t) {
    return alignment;
}

size_t get_alloc_size(ggml_backend_buffer_type_t, const ggml_tensor * tensor) {
    const int64_t behind = tensor->ne[0] % row_padding;
    const bool is_padded = ggml_is_quantized(tensor->type) && behind != 0;
    return ggml_nbytes(tensor) + (is_padded ? ggml_row_size(tensor->type, row_padding - behind) : 0);
}

// --- pinned

const char * pinned_name(ggml_backend_buffer_type_t) {
    return "CUDA_Host";
}

void free_pinned_buffer(ggml_backend_buffer_t buffer) {
    check(cudaFreeHost(buffer->context), "cudaFreeHost");
}

ggml_backend_buffer_t allocate_pinned(ggml_backend_buffer_type_t type, size_t bytes) {
    void * memory = nullptr;
    if (cudaMallocHost(&memory, bytes) != cudaSuccess) {
        cudaGetLastError();
        return ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), bytes);
    }
    ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(memory, bytes);
    buffer->buft = type;
    buffer->iface.free_buffer = free_pinned_buffer;
    return buffer;
}

}  // namespace

ggml_backend_buffer_type_t device_buffer_type() {
    static ggml_backend_buffer_type type = {
        {buffer_type_name, allocate, get_alignment, /*get_max_size=*/nullptr, get_alloc_size, /*is_host=*/nullptr},
        device(),
        /*context=*/nullptr,
    };
    return &type;
}

ggml_backend_buffer_type_t pinned_buffer_type() {
    const ggml_backend_buffer_type_i & cpu = ggml_backend_cpu_buffer_type()->iface;
    static ggml_backend_buffer_type type = {
        {pinned_name, allocate_pinned, cpu.get_alignment, /*get_max_size=*/nullptr, cpu.get_alloc_size, cpu.is_host},
        device(),
        /*context=*/nullptr,
    };
    return &type;
}

bool is_device_buffer(ggml_backend_buffer_t buffer) {
    return buffer != nullptr && buffer->buft == device_buffer_type();
}

}  // namespace emulated_gpu
