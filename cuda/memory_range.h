// A reserved range of a device's addresses that gets memory from its beginning on, granule by granule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace orin::cuda {

// What goes wrong is told as a text, "" where nothing does: the driver's call and its name of the error.
class MemoryRange {
   public:
    MemoryRange() = default;
    ~MemoryRange();
    MemoryRange(MemoryRange && other) noexcept;
    MemoryRange & operator=(MemoryRange && other) noexcept;

    // Addresses for n_bytes on the device of this ordinal; no memory. Once.
    std::string reserve(int device, size_t n_bytes);
    // Memory for the first n_bytes, where it is not there yet: its content is undefined. After a failure there is as
    // much as before. PRECOND: n_bytes were reserved.
    std::string commit(size_t n_bytes);
    // Gives back what lies behind the first n_bytes, but for the rest of their last granule. PRECOND: no queued work
    // uses it.
    void give_back(size_t n_bytes);

    char * data() const { return data_; }
    size_t granule_bytes() const { return granule_bytes_; }
    size_t committed_bytes() const { return granules_.size() * granule_bytes_; }

   private:
    void swap(MemoryRange & other) noexcept;
    std::string add_granule();
    void remove_granule();

    int device_ = 0;
    char * data_ = nullptr;
    size_t reserved_bytes_ = 0;
    size_t granule_bytes_ = 0;
    std::vector<uint64_t> granules_;  // the driver's handles
};

// Tries it on the device: whether what is written into a granule can be read again.
std::string probe_memory_range(int device);

}  // namespace orin::cuda
