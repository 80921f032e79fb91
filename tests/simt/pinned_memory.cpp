#include "pinned_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <map>

#include "stream.h"

namespace simt {
namespace {

std::map<uintptr_t, size_t> & pinned() {
    static auto * all = new std::map<uintptr_t, size_t>;  // never destroyed: others end later
    return *all;
}

size_t pinned_limit = SIZE_MAX;
size_t n_pinned = 0;  // bytes

}  // namespace

void set_pinned_limit(size_t bytes) {
    const DeviceLock lock(device_lock());
    pinned_limit = bytes;
}

void * allocate_pinned(size_t bytes) {
    const DeviceLock lock(device_lock());
    if (n_pinned > pinned_limit || bytes > pinned_limit - n_pinned) {
        return nullptr;
    }
    void * memory = mmap(nullptr, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return nullptr;
    }
    std::memset(memory, 0xFF, bytes);
    pinned()[reinterpret_cast<uintptr_t>(memory)] = bytes;
    n_pinned += bytes;
    return memory;
}

// Who uses it later finds no memory there.
bool free_pinned(void * memory) {
    const DeviceLock lock(device_lock());
    const auto found = pinned().find(reinterpret_cast<uintptr_t>(memory));
    if (found == pinned().end()) {
        return false;
    }
    munmap(memory, found->second + 1);
    n_pinned -= found->second;
    pinned().erase(found);
    return true;
}

bool is_pinned(const void * memory, size_t bytes) {
    const DeviceLock lock(device_lock());
    const auto begin = reinterpret_cast<uintptr_t>(memory);
    auto found = pinned().upper_bound(begin);
    if (found == pinned().begin()) {
        return false;
    }
    --found;
    return begin + bytes <= found->first + found->second;
}

}  // namespace simt
