// What a load took, by part.
#pragma once

#include <cstdint>

namespace orin {

struct LoadReport {
    double read_ms = 0;         // reading, checking and placing tensors, without the next
    double upload_ms = 0;       // waiting for a device that had not copied yet
    uint64_t bytes = 0;         // of the tensors that were read
    uint64_t direct_bytes = 0;  // read around the page cache
};

}  // namespace orin
