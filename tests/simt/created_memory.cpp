#include "created_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace simt {
namespace {

constexpr size_t garbage_bytes = 64 << 20;  // more takes too long

}  // namespace

void fill_with_garbage(void * memory, size_t bytes) {
    std::memset(memory, 0xFF, std::min(bytes, garbage_bytes));
}

CreatedMemory::CreatedMemory() : file_(memfd_create("device memory", MFD_CLOEXEC)) {
    if (file_ < 0) {
        throw std::bad_alloc();
    }
}

int64_t CreatedMemory::create(size_t bytes) {
    const int64_t place = file_bytes_;
    void * window = MAP_FAILED;
    if (ftruncate(file_, place + static_cast<off_t>(bytes)) == 0) {
        window = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, place);
    }
    if (window == MAP_FAILED) {
        return -1;
    }
    fill_with_garbage(window, bytes);
    munmap(window, bytes);
    file_bytes_ += static_cast<int64_t>(bytes);
    parts_[place] = {bytes, 0, false};
    return place;
}

bool CreatedMemory::holds(int64_t place, size_t offset, size_t bytes) const {
    const auto found = parts_.find(place);
    return found != parts_.end() && !found->second.is_released && offset + bytes <= found->second.bytes;
}

bool CreatedMemory::map(void * memory, size_t bytes, int64_t place, size_t offset) {
    const off_t from = place + static_cast<off_t>(offset);
    if (mmap(memory, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file_, from) == MAP_FAILED) {
        return false;
    }
    parts_[place].n_mappings++;
    return true;
}

size_t CreatedMemory::unmapped(int64_t place) {
    parts_[place].n_mappings--;
    return drop_if_unused(place);
}

size_t CreatedMemory::release(int64_t place) {
    parts_[place].is_released = true;
    return drop_if_unused(place);
}

size_t CreatedMemory::drop_if_unused(int64_t place) {
    const auto found = parts_.find(place);
    const Part part = found->second;
    if (!part.is_released || part.n_mappings > 0) {
        return 0;
    }
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place, static_cast<off_t>(part.bytes));
    parts_.erase(found);
    return part.bytes;
}

}  // namespace simt
