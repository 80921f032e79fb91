// The memory of the emulated GPU: a range of addresses that the host cannot touch. It is opened while the device runs
// or copies; who touches it otherwise, or what nobody owns, ends the process with a line that says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "created_memory.h"

namespace simt {

constexpr size_t page_bytes = 4096;
constexpr size_t huge_page_bytes = 2 << 20;

// All functions but the constructor's are called with the device's lock held.
class DeviceMemory {
   public:
    static DeviceMemory & instance();

    // Garbage, which is NaN as floats (behind the first 64 MiB, zeros). Null: not enough is left.
    void * allocate(size_t bytes);
    // False: it was not allocated.
    bool free(void * memory);

    // Addresses without memory. Null: there are none.
    void * reserve(size_t bytes);
    bool unreserve(void * memory, size_t bytes);
    // Memory without addresses, which is told by its place; below 0: not enough is left.
    int64_t create(size_t bytes);
    // Where it is mapped it stays until it is no more.
    bool release(int64_t place);
    // Puts it, from an offset on, at reserved addresses, where the device cannot touch it before allow().
    bool map(void * memory, size_t bytes, int64_t place, size_t offset);
    bool allow(void * memory, size_t bytes);
    bool unmap(void * memory, size_t bytes);

    bool is_device(const void * address) const;
    // Whether all of it is memory that the device may touch.
    bool holds(const void * memory, size_t bytes) const;

    size_t total_bytes() const { return total_bytes_; }
    size_t used_bytes() const { return used_bytes_; }
    size_t free_bytes() const { return total_bytes_ < used_bytes_ ? 0 : total_bytes_ - used_bytes_; }
    void set_total_bytes(size_t bytes) { total_bytes_ = bytes; }

    // What happened at an address: for the line before the end.
    void describe(const void * address, char * text, size_t size) const;

   private:
    friend class DeviceRuns;
    struct Chunk {
        size_t bytes;        // whole pages
        size_t asked_bytes;  // what may be used of them
        bool is_open_to_device;
        int64_t place;  // of what is mapped; below 0: an allocation
    };
    using Chunks = std::map<uintptr_t, Chunk>;

    DeviceMemory();
    uintptr_t find_gap(size_t bytes, size_t alignment);
    const Chunks::value_type * chunk_at(uintptr_t address) const;
    bool has_reserved(uintptr_t begin, size_t bytes) const;
    void forget(uintptr_t begin, size_t bytes);
    template <typename Each>
    bool for_mappings(void * memory, size_t bytes, const Each & each);
    void protect_all(int protection);

    uintptr_t begin_ = 0;
    uintptr_t end_ = 0;
    uintptr_t cursor_ = 0;
    size_t total_bytes_ = size_t{8} << 30;
    size_t used_bytes_ = 0;
    Chunks chunks_;                      // allocations and mappings
    std::map<uintptr_t, size_t> taken_;  // allocations and reservations, each with a page behind it
    CreatedMemory created_;
};

// While one lives the device works, on what `name` says. May be nested.
class DeviceRuns {
   public:
    explicit DeviceRuns(const char * name);
    ~DeviceRuns();
    DeviceRuns(const DeviceRuns &) = delete;
    DeviceRuns & operator=(const DeviceRuns &) = delete;

   private:
    const char * outer_;
};

}  // namespace simt
