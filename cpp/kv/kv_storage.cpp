#include "kv_storage.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace orin {
namespace {

size_t memory_page() {
    static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

size_t round_up(size_t bytes) {
    return (bytes + memory_page() - 1) / memory_page() * memory_page();
}

}  // namespace

KvStorage::KvStorage(const std::vector<KvLayerSize> & layers, int64_t n_cells)
    : sizes_(layers), n_cells_(n_cells), bytes_per_cell_(0), n_bytes_(0) {
    const auto cells = static_cast<size_t>(n_cells);
    for (const KvLayerSize & size : sizes_) {
        bytes_per_cell_ += size.k_row_bytes + size.v_row_bytes;
        n_bytes_ += round_up(cells * size.k_row_bytes) + round_up(cells * size.v_row_bytes);
    }
    // Without MAP_NORESERVE the whole budget would count as promised before any of it is used.
    void * memory = mmap(nullptr, n_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::bad_alloc();
    }
    memory_ = static_cast<char *>(memory);
    // Or where huge pages are for all, the first token would take one in every layer.
    madvise(memory_, n_bytes_, MADV_NOHUGEPAGE);
    char * next = memory_;
    for (const KvLayerSize & size : sizes_) {
        char * k = next;
        char * v = k + round_up(cells * size.k_row_bytes);
        next = v + round_up(cells * size.v_row_bytes);
        layers_.push_back({k, v});
    }
    buffer_.reset(ggml_backend_cpu_buffer_from_ptr(memory_, n_bytes_));
}

KvStorage::~KvStorage() {
    munmap(memory_, n_bytes_);
}

void KvStorage::copy_cells(int64_t from, int64_t to, int32_t n) {
    for_all_rows([&](char * rows, size_t row_bytes) {
        std::memcpy(rows + static_cast<size_t>(to) * row_bytes, rows + static_cast<size_t>(from) * row_bytes,
                    static_cast<size_t>(n) * row_bytes);
    });
}

void KvStorage::read_cell(int64_t cell, char * bytes) const {
    for_all_rows([&](const char * rows, size_t row_bytes) {
        std::memcpy(bytes, rows + static_cast<size_t>(cell) * row_bytes, row_bytes);
        bytes += row_bytes;
    });
}

void KvStorage::write_cell(int64_t cell, const char * bytes) {
    for_all_rows([&](char * rows, size_t row_bytes) {
        std::memcpy(rows + static_cast<size_t>(cell) * row_bytes, bytes, row_bytes);
        bytes += row_bytes;
    });
}

void KvStorage::give_back(int64_t first_cell) {
    for_all_rows([&](char * rows, size_t row_bytes) {
        const size_t begin = round_up(static_cast<size_t>(first_cell) * row_bytes);
        const size_t end = round_up(static_cast<size_t>(n_cells_) * row_bytes);
        if (begin < end) {
            madvise(rows + begin, end - begin, MADV_DONTNEED);
        }
    });
}

}  // namespace orin
