// The runtime's memory and copies.
#include <cstring>
#include <memory>
#include <vector>

#include "counters.h"
#include "device_memory.h"
#include "pinned_memory.h"
#include "runtime_handles.h"

using namespace simt;

namespace {

// Rows; a plain copy is one.
struct Copy {
    char * to;
    size_t to_pitch;
    const char * from;
    size_t from_pitch;
    size_t width;
    size_t height;

    size_t bytes() const { return width * height; }
    size_t to_span() const { return height == 0 ? 0 : to_pitch * (height - 1) + width; }
    size_t from_span() const { return height == 0 ? 0 : from_pitch * (height - 1) + width; }

    void make() const {
        for (size_t row = 0; row < height; row++) {
            std::memcpy(to + row * to_pitch, from + row * from_pitch, width);
        }
    }
};

DeviceMemory & memory() {
    return DeviceMemory::instance();
}

// Rows packed, as they are now.
std::vector<char> packed(const Copy & copy) {
    std::vector<char> bytes(copy.bytes());
    Copy{bytes.data(), copy.width, copy.from, copy.from_pitch, copy.width, copy.height}.make();
    return bytes;
}

bool is_host(cudaMemcpyKind kind, cudaMemcpyKind one, cudaMemcpyKind other, const void * address) {
    return kind == cudaMemcpyDefault ? !memory().is_device(address) : kind == one || kind == other;
}

cudaError_t copy_async(const Copy & copy, cudaMemcpyKind kind, cudaStream_t handle) {
    if (copy.bytes() == 0) {
        return cudaSuccess;
    }
    const DeviceLock lock(device_lock());
    const std::shared_ptr<Stream> & stream = stream_of(handle);
    const bool from_host = is_host(kind, cudaMemcpyHostToDevice, cudaMemcpyHostToHost, copy.from);
    const bool to_host = is_host(kind, cudaMemcpyDeviceToHost, cudaMemcpyHostToHost, copy.to);
    if ((!from_host && !memory().holds(copy.from, copy.from_span())) ||
        (!to_host && !memory().holds(copy.to, copy.to_span())) || (from_host && memory().is_device(copy.from)) ||
        (to_host && memory().is_device(copy.to))) {
        return cudaErrorInvalidValue;
    }
    const auto bytes = static_cast<int64_t>(copy.bytes());
    const bool is_recorded = stream != nullptr && stream->recording != nullptr;
    if (from_host && !is_recorded && !is_pinned(copy.from, copy.from_span())) {
        count("pageable_copies_to_device");
        auto kept = std::make_shared<std::vector<char>>(packed(copy));
        enqueue(stream, {"a copy from the host", [copy, kept] {
                             Copy{copy.to, copy.to_pitch, kept->data(), copy.width, copy.width, copy.height}.make();
                         }});
    } else {
        enqueue(stream, {"a copy", [copy] { copy.make(); }});
    }
    count(from_host ? "copies_to_device" : to_host ? "copies_to_host" : "copies_on_device");
    count(from_host ? "bytes_to_device" : to_host ? "bytes_to_host" : "bytes_on_device", bytes);
    if (to_host && !is_recorded && !is_pinned(copy.to, copy.to_span())) {
        count("pageable_copies_to_host");
        finish(mark(stream));
    }
    return cudaSuccess;
}

}  // namespace

cudaError_t cudaMemGetInfo(size_t * free, size_t * total) {
    return runtime_call([&] {
        const DeviceLock lock(device_lock());
        *free = memory().free_bytes();
        *total = memory().total_bytes();
        return cudaSuccess;
    });
}

cudaError_t cudaMalloc(void ** result, size_t bytes) {
    return runtime_call([&] {
        const DeviceLock lock(device_lock());
        *result = memory().allocate(bytes);
        count("allocations");
        return *result == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
    });
}

// Waits for all work, as the runtime does.
cudaError_t cudaFree(void * freed) {
    return runtime_call([&] {
        const DeviceLock lock(device_lock());
        finish_all();
        return freed == nullptr || memory().free(freed) ? cudaSuccess : cudaErrorInvalidValue;
    });
}

cudaError_t cudaMallocHost(void ** result, size_t bytes) {
    return cudaHostAlloc(result, bytes, cudaHostAllocDefault);
}

cudaError_t cudaHostAlloc(void ** result, size_t bytes, unsigned) {
    return runtime_call([&] {
        *result = allocate_pinned(bytes);
        return *result == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
    });
}

cudaError_t cudaFreeHost(void * freed) {
    return runtime_call([&] {
        const DeviceLock lock(device_lock());
        finish_all();
        return freed == nullptr || free_pinned(freed) ? cudaSuccess : cudaErrorInvalidValue;
    });
}

cudaError_t cudaMemcpyAsync(void * to, const void * from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemcpy2DAsync(void * to, size_t to_pitch, const void * from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    return runtime_call([&] {
        return copy_async(
            {static_cast<char *>(to), to_pitch, static_cast<const char *>(from), from_pitch, width, height}, kind,
            stream);
    });
}

cudaError_t cudaMemcpy(void * to, const void * from, size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}

cudaError_t cudaMemsetAsync(void * set, int value, size_t bytes, cudaStream_t stream) {
    return runtime_call([&] {
        const DeviceLock lock(device_lock());
        if (!memory().holds(set, bytes)) {
            return cudaErrorInvalidValue;
        }
        enqueue(stream_of(stream), {"a memset", [=] { std::memset(set, value, bytes); }});
        return cudaSuccess;
    });
}

cudaError_t cudaMemset(void * set, int value, size_t bytes) {
    return cudaMemsetAsync(set, value, bytes, nullptr);
}
