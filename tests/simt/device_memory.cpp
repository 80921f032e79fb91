#include "device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <vector>

#include "memory_faults.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

namespace simt {
namespace {

constexpr size_t address_bytes = size_t{64} << 30;

int depth = 0;
const char * work = nullptr;

size_t rounded(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

void * at(uintptr_t address) {
    return reinterpret_cast<void *>(address);
}

uintptr_t number(const void * address) {
    return reinterpret_cast<uintptr_t>(address);
}

}  // namespace

DeviceMemory & DeviceMemory::instance() {
    static auto * memory = new DeviceMemory;  // never destroyed: others end later
    return *memory;
}

DeviceMemory::DeviceMemory() {
    void * range = mmap(nullptr, address_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        throw std::bad_alloc();
    }
    begin_ = number(range) + page_bytes;  // behind a page that is nobody's
    end_ = number(range) + address_bytes;
    cursor_ = begin_;
    report_memory_faults();
}

// Addresses are not used again before all have been, so that who uses what was freed is noticed.
uintptr_t DeviceMemory::find_gap(size_t bytes, size_t alignment) {
    for (int round = 0; round < 2; round++) {
        uintptr_t place = rounded(round == 0 ? cursor_ : begin_, alignment);
        auto next = taken_.upper_bound(place);
        if (next != taken_.begin()) {
            const auto before = std::prev(next);
            place = std::max(place, rounded(before->first + before->second, alignment));
        }
        for (; next != taken_.end() && next->first < place + bytes + page_bytes; ++next) {
            place = rounded(next->first + next->second, alignment);
        }
        if (place + bytes + page_bytes <= end_) {
            cursor_ = place + bytes + page_bytes;
            taken_[place] = bytes + page_bytes;
            return place;
        }
    }
    return 0;
}

void * DeviceMemory::allocate(size_t bytes) {
    const size_t whole = rounded(std::max<size_t>(bytes, 1), page_bytes);
    if (whole > free_bytes()) {
        return nullptr;
    }
    const uintptr_t place = find_gap(whole, whole >= huge_page_bytes ? huge_page_bytes : page_bytes);
    if (place == 0) {
        return nullptr;
    }
    if (mprotect(at(place), whole, PROT_READ | PROT_WRITE) != 0) {
        taken_.erase(place);
        return nullptr;
    }
    madvise(at(place), whole, MADV_HUGEPAGE);  // fewer pages to open and close
    ASAN_UNPOISON_MEMORY_REGION(at(place), whole);
    fill_with_garbage(at(place), whole);
    ASAN_POISON_MEMORY_REGION(at(place + bytes), whole - bytes);
    if (depth == 0) {
        mprotect(at(place), whole, PROT_NONE);
    }
    chunks_[place] = {whole, bytes, true, -1};
    used_bytes_ += whole;
    return at(place);
}

bool DeviceMemory::free(void * memory) {
    const auto found = chunks_.find(number(memory));
    if (found == chunks_.end() || found->second.place >= 0) {
        return false;
    }
    used_bytes_ -= found->second.bytes;
    forget(found->first, found->second.bytes);
    taken_.erase(found->first);
    chunks_.erase(found);
    return true;
}

void DeviceMemory::forget(uintptr_t begin, size_t bytes) {
    ASAN_UNPOISON_MEMORY_REGION(at(begin), bytes);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(at(begin), bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED) {
        throw std::bad_alloc();
    }
}

void * DeviceMemory::reserve(size_t bytes) {
    return at(find_gap(bytes, huge_page_bytes));
}

bool DeviceMemory::unreserve(void * memory, size_t bytes) {
    const auto found = taken_.find(number(memory));
    const auto first = chunks_.lower_bound(number(memory));
    const bool is_empty = first == chunks_.end() || first->first >= number(memory) + bytes;
    if (found == taken_.end() || found->second != bytes + page_bytes || !is_empty) {
        return false;
    }
    taken_.erase(found);
    return true;
}

int64_t DeviceMemory::create(size_t bytes) {
    const int64_t place = bytes <= free_bytes() ? created_.create(bytes) : -1;
    used_bytes_ += place < 0 ? 0 : bytes;
    return place;
}

bool DeviceMemory::release(int64_t place) {
    if (!created_.holds(place, 0, 0)) {
        return false;
    }
    used_bytes_ -= created_.release(place);
    return true;
}

bool DeviceMemory::has_reserved(uintptr_t begin, size_t bytes) const {
    auto range = taken_.upper_bound(begin);
    if (range == taken_.begin()) {
        return false;
    }
    --range;
    return begin + bytes <= range->first + range->second - page_bytes && chunk_at(begin) == nullptr;
}

bool DeviceMemory::map(void * memory, size_t bytes, int64_t place, size_t offset) {
    const uintptr_t begin = number(memory);
    const auto next = chunks_.lower_bound(begin);
    const bool is_taken = next != chunks_.end() && next->first < begin + bytes;
    if (is_taken || !has_reserved(begin, bytes) || !created_.holds(place, offset, bytes) ||
        !created_.map(memory, bytes, place, offset)) {
        return false;
    }
    chunks_[begin] = {bytes, bytes, false, place};
    return true;
}

// Whole mappings only, of which there may be several.
template <typename Each>
bool DeviceMemory::for_mappings(void * memory, size_t bytes, const Each & each) {
    const uintptr_t end = number(memory) + bytes;
    for (uintptr_t place = number(memory); place < end;) {
        const auto found = chunks_.find(place);
        if (found == chunks_.end() || found->second.place < 0 || place + found->second.bytes > end) {
            return false;
        }
        place += found->second.bytes;
        each(found->second);
    }
    return true;
}

bool DeviceMemory::allow(void * memory, size_t bytes) {
    const bool are_mapped = for_mappings(memory, bytes, [](Chunk & chunk) { chunk.is_open_to_device = true; });
    if (are_mapped && depth > 0) {
        mprotect(memory, bytes, PROT_READ | PROT_WRITE);
    }
    return are_mapped;
}

bool DeviceMemory::unmap(void * memory, size_t bytes) {
    std::vector<int64_t> places;
    if (!for_mappings(memory, bytes, [&](const Chunk & chunk) { places.push_back(chunk.place); })) {
        return false;
    }
    chunks_.erase(chunks_.lower_bound(number(memory)), chunks_.lower_bound(number(memory) + bytes));
    forget(number(memory), bytes);
    for (const int64_t place : places) {
        used_bytes_ -= created_.unmapped(place);
    }
    return true;
}

const DeviceMemory::Chunks::value_type * DeviceMemory::chunk_at(uintptr_t address) const {
    auto found = chunks_.upper_bound(address);
    if (found == chunks_.begin()) {
        return nullptr;
    }
    --found;
    return address < found->first + found->second.bytes ? &*found : nullptr;
}

bool DeviceMemory::is_device(const void * address) const {
    return number(address) >= begin_ - page_bytes && number(address) < end_;
}

bool DeviceMemory::holds(const void * memory, size_t bytes) const {
    const uintptr_t end = number(memory) + bytes;
    for (uintptr_t place = number(memory); place < end;) {
        const Chunks::value_type * chunk = chunk_at(place);
        const bool has_some = chunk != nullptr && chunk->second.is_open_to_device;
        if (!has_some || place >= chunk->first + chunk->second.asked_bytes) {
            return false;
        }
        place = chunk->first + chunk->second.asked_bytes;
    }
    return true;
}

// Called in a signal handler, by a process that is about to end.
void DeviceMemory::describe(const void * address, char * text, size_t size) const {
    const Chunks::value_type * chunk = chunk_at(number(address));
    const char * what = chunk == nullptr                   ? "that nothing is allocated or mapped at"
                        : !chunk->second.is_open_to_device ? "that is mapped, but not open to the device"
                        : depth > 0                        ? "that it may touch"
                                                           : "that is the device's";
    if (depth > 0) {
        std::snprintf(text, size, "the emulated GPU, running %s, touched device memory %s: %p\n", work, what, address);
    } else {
        std::snprintf(text, size, "the host touched device memory %s: %p\n", what, address);
    }
}

// One call for neighbours: what grows by small pieces would need many.
void DeviceMemory::protect_all(int protection) {
    for (auto chunk = chunks_.begin(); chunk != chunks_.end();) {
        const uintptr_t begin = chunk->first;
        uintptr_t end = begin;
        for (; chunk != chunks_.end() && chunk->first == end && chunk->second.is_open_to_device; ++chunk) {
            end = chunk->first + chunk->second.bytes;
        }
        if (end == begin) {
            ++chunk;  // closed to the device as well
        } else {
            mprotect(at(begin), end - begin, protection);
        }
    }
}

DeviceRuns::DeviceRuns(const char * name) : outer_(work) {
    work = name;
    if (depth++ == 0) {
        DeviceMemory::instance().protect_all(PROT_READ | PROT_WRITE);
    }
}

DeviceRuns::~DeviceRuns() {
    work = outer_;
    if (--depth == 0) {
        DeviceMemory::instance().protect_all(PROT_NONE);
    }
}

}  // namespace simt
