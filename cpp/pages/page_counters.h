// What a page pool counts. Numbers of pages leave the scratch page out.
#pragma once

#include <cstdint>

namespace orin {

struct PageCounters {
    // now
    int64_t used;    // held by at least one sequence
    int64_t cached;  // held by none, findable by prefix
    int64_t free;    // used + cached + free = capacity
    int64_t shared;  // held by more than one sequence
    int64_t tokens;  // cells of used pages that hold a token
    // since the start
    int64_t lookups;         // pages that attention read, summed over steps and sequences
    int64_t misses;          // of them, pages that had to be taken or copied in that step
    int64_t evictions;       // cached pages given up for others
    int64_t copies;          // copies on write
    int64_t prefix_queries;  // tokens looked up in the prefix index
    int64_t prefix_hits;     // of them, tokens found

    double hit_rate() const {
        return lookups == 0 ? 1.0 : 1.0 - static_cast<double>(misses) / static_cast<double>(lookups);
    }
    // The part of the used pages' cells that holds no token.
    double fragmentation(int32_t page_size) const {
        return used == 0 ? 0.0 : 1.0 - static_cast<double>(tokens) / (static_cast<double>(used) * page_size);
    }
};

}  // namespace orin
