// How much memory the emulated device has: what is mapped into reserved addresses counts, and whatever else asks here.
#pragma once

#include <cstddef>
#include <limits>

namespace simt {

struct DeviceMemory {
    size_t total_bytes = std::numeric_limits<size_t>::max();
    size_t used_bytes = 0;

    size_t free_bytes() const { return used_bytes < total_bytes ? total_bytes - used_bytes : 0; }
    // False, and nothing is taken, where less is free.
    bool take(size_t bytes) {
        const bool fits = bytes <= free_bytes();
        used_bytes += fits ? bytes : 0;
        return fits;
    }
    void give_back(size_t bytes) { used_bytes -= bytes; }
};

inline DeviceMemory device_memory;

}  // namespace simt
