#include "host_kv_storage.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
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

HostKvStorage::HostKvStorage(const std::vector<KvLayerSize> & layers, int64_t n_cells) : KvStorage(layers, n_cells) {
    for (const Piece & piece : pieces_) {
        n_bytes_ += round_up(static_cast<size_t>(n_cells) * piece.row_bytes);
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
    for (Piece & piece : pieces_) {
        piece.data = next;
        next += round_up(static_cast<size_t>(n_cells) * piece.row_bytes);
    }
    buffer_.reset(ggml_backend_cpu_buffer_from_ptr(memory_, n_bytes_));
}

HostKvStorage::~HostKvStorage() {
    munmap(memory_, n_bytes_);
}

void HostKvStorage::commit(int64_t n) {
    n_committed_ = std::max(n_committed_, n);
}

void HostKvStorage::give_back(int64_t first_cell) {
    for (const Piece & piece : pieces_) {
        const size_t begin = round_up(static_cast<size_t>(first_cell) * piece.row_bytes);
        const size_t end = round_up(static_cast<size_t>(n_cells()) * piece.row_bytes);
        if (begin < end) {
            madvise(piece.data + begin, end - begin, MADV_DONTNEED);
        }
    }
    n_committed_ = std::min(n_committed_, first_cell);
}

void HostKvStorage::copy(const char * from, char * to, size_t n_bytes, ggml_backend_t) {
    std::memcpy(to, from, n_bytes);
}

void HostKvStorage::read(const char * from, char * bytes, size_t n_bytes) const {
    std::memcpy(bytes, from, n_bytes);
}

void HostKvStorage::write(const char * bytes, char * to, size_t n_bytes) {
    std::memcpy(to, bytes, n_bytes);
}

}  // namespace orin
