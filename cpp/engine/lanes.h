// Idle lanes: a step without prompt tokens is padded to one of few sizes on a GPU, so that what was captured for a size
// is good for any number of sequences up to it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace orin {

// The smallest power of two that holds n, or all lanes there are.
inline int32_t padded_lanes(int32_t n, int32_t max_lanes) {
    int32_t lanes = 1;
    while (lanes < n) {
        lanes *= 2;
    }
    return std::min(lanes, max_lanes);
}

}  // namespace orin
