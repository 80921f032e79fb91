#ifdef ORIN_CUDA
#include "device_kv_storage.h"

#include <algorithm>
#include <utility>

#include "device_ordinal.h"

namespace orin {
namespace {

constexpr size_t piece_alignment = 256;  // of what cudaMalloc gives

size_t aligned(size_t bytes) {
    return (bytes + piece_alignment - 1) / piece_alignment * piece_alignment;
}

std::string mib(size_t bytes) {
    return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

// Bytes in the storage, as ggml's calls want them.
ggml_tensor tensor_of(const char * data, size_t n_bytes, ggml_backend_buffer_t buffer) {
    ggml_tensor tensor{};
    tensor.type = GGML_TYPE_I8;
    tensor.ne[0] = static_cast<int64_t>(n_bytes);
    tensor.nb[0] = 1;
    for (int i = 1; i < GGML_MAX_DIMS; i++) {
        tensor.ne[i] = 1;
        tensor.nb[i] = n_bytes;
    }
    tensor.buffer = buffer;
    tensor.data = const_cast<char *>(data);
    return tensor;
}

}  // namespace

DeviceKvStorage::DeviceKvStorage(ggml_backend_dev_t device, const std::vector<KvLayerSize> & layers, int64_t n_cells,
                                 const std::string & no_growth)
    : KvStorage(layers, n_cells), device_(device) {
    const std::string problem = no_growth.empty() ? reserve_ranges() : no_growth;
    if (problem.empty()) {
        how_ = "virtual memory of the GPU, granule by granule";
    } else {
        how_ = "one allocation: " + problem;
        allocate_all();
    }
}

std::string DeviceKvStorage::reserve_ranges() {
    const int device = device_ordinal(device_);
    std::string problem = cuda::probe_memory_range(device);
    std::vector<cuda::MemoryRange> ranges(pieces_.size());
    for (size_t i = 0; i < pieces_.size() && problem.empty(); i++) {
        problem = ranges[i].reserve(device, static_cast<size_t>(n_cells()) * pieces_[i].row_bytes);
        pieces_[i].data = ranges[i].data();
    }
    if (!problem.empty()) {
        return problem;
    }
    buffer_.reset(ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device_), 1));
    if (!buffer_) {
        return "its memory is full";
    }
    ranges_ = std::move(ranges);
    return "";
}

void DeviceKvStorage::allocate_all() {
    size_t n_bytes = 0;
    for (const Piece & piece : pieces_) {
        n_bytes += aligned(static_cast<size_t>(n_cells()) * piece.row_bytes);
    }
    buffer_.reset(ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device_), n_bytes));
    if (!buffer_) {
        throw shortage(n_bytes, how_);
    }
    ggml_backend_buffer_clear(buffer_.get(), 0);
    auto * next = static_cast<char *>(ggml_backend_buffer_get_base(buffer_.get()));
    for (Piece & piece : pieces_) {
        piece.data = next;
        next += aligned(static_cast<size_t>(n_cells()) * piece.row_bytes);
    }
}

void DeviceKvStorage::commit(int64_t n) {
    const size_t missing = missing_bytes(n);
    std::vector<size_t> before;
    for (size_t i = 0; i < ranges_.size(); i++) {
        before.push_back(ranges_[i].committed_bytes());
        const std::string problem = ranges_[i].commit(static_cast<size_t>(n) * pieces_[i].row_bytes);
        if (!problem.empty()) {
            for (size_t j = 0; j < i; j++) {
                ranges_[j].give_back(before[j]);
            }
            throw shortage(missing, problem);
        }
    }
}

void DeviceKvStorage::give_back(int64_t first_cell) {
    for (size_t i = 0; i < ranges_.size(); i++) {
        ranges_[i].give_back(static_cast<size_t>(first_cell) * pieces_[i].row_bytes);
    }
}

size_t DeviceKvStorage::committed_bytes() const {
    size_t n_bytes = ranges_.empty() ? ggml_backend_buffer_get_size(buffer_.get()) : 0;
    for (const cuda::MemoryRange & range : ranges_) {
        n_bytes += range.committed_bytes();
    }
    return n_bytes;
}

int64_t DeviceKvStorage::committed_cells() const {
    int64_t n = n_cells();
    for (size_t i = 0; i < ranges_.size(); i++) {
        n = std::min(n, static_cast<int64_t>(ranges_[i].committed_bytes() / pieces_[i].row_bytes));
    }
    return n;
}

size_t DeviceKvStorage::missing_bytes(int64_t n) const {
    size_t n_bytes = 0;
    for (size_t i = 0; i < ranges_.size(); i++) {
        const size_t granule = ranges_[i].granule_bytes();
        const size_t wanted = (static_cast<size_t>(n) * pieces_[i].row_bytes + granule - 1) / granule * granule;
        n_bytes += std::max(wanted, ranges_[i].committed_bytes()) - ranges_[i].committed_bytes();
    }
    return n_bytes;
}

// What is free is MemAvailable where the GPU shares the system's memory.
OutOfMemory DeviceKvStorage::shortage(size_t missing_bytes, const std::string & problem) const {
    size_t free = 0;
    size_t total = 0;
    ggml_backend_dev_memory(device_, &free, &total);
    return OutOfMemory("the KV cache cannot get " + mib(missing_bytes) + " of " + ggml_backend_dev_name(device_) +
                       "'s memory, of which " + mib(free) + " are free (" + problem +
                       "): lower --kv-memory or -c/--ctx-size (kv_memory, n_ctx in Python)");
}

void DeviceKvStorage::copy(const char * from, char * to, size_t n_bytes, ggml_backend_t stream) {
    const ggml_tensor source = tensor_of(from, n_bytes, buffer());
    ggml_tensor target = tensor_of(to, n_bytes, buffer());
    if (stream == nullptr) {
        ggml_backend_tensor_copy(&source, &target);
    } else {
        ggml_backend_tensor_copy_async(stream, stream, &source, &target);
    }
}

void DeviceKvStorage::read(const char * from, char * bytes, size_t n_bytes) const {
    const ggml_tensor source = tensor_of(from, n_bytes, buffer());
    ggml_backend_tensor_get(&source, bytes, 0, n_bytes);
}

void DeviceKvStorage::write(const char * bytes, char * to, size_t n_bytes) {
    ggml_tensor target = tensor_of(to, n_bytes, buffer());
    ggml_backend_tensor_set(&target, bytes, 0, n_bytes);
}

}  // namespace orin
#endif
