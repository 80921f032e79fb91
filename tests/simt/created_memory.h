// Device memory that has no addresses of its own: parts of a file in memory, which are mapped where they are wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace simt {

class CreatedMemory {
   public:
    CreatedMemory();

    // Garbage (behind the first 64 MiB, zeros), told by its place in the file; below 0: the system has no more.
    int64_t create(size_t bytes);
    bool holds(int64_t place, size_t offset, size_t bytes) const;
    // Without access. PRECOND: it holds them.
    bool map(void * memory, size_t bytes, int64_t place, size_t offset);
    // Each returns the bytes that are nobody's any more: those of what is both released and mapped nowhere.
    size_t unmapped(int64_t place);
    size_t release(int64_t place);

   private:
    struct Part {
        size_t bytes;
        int n_mappings;
        bool is_released;
    };
    size_t drop_if_unused(int64_t place);

    int file_;
    int64_t file_bytes_ = 0;
    std::map<int64_t, Part> parts_;
};

// Bytes that are NaN as floats and -1 as integers.
void fill_with_garbage(void * memory, size_t bytes);

}  // namespace simt
