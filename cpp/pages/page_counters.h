// What a page pool counts. Numbers of pages leave the scratch page out.
#pragma once

#include <cstdint>

namespace orin {

struct PageCounters {
    // now
    int64_t used;    // held by at least one sequence
    int64_t cached;  // held by none, in the prefix index
    int64_t free;    // used + cached + free = budget
    int64_t shared;  // held by more than one sequence
    // Cells of used pages that hold a token, each once however many sequences hold the page. What the longest of a
    // page's holders wrote counts until a holder is alone with the page and truncates or writes it.
    int64_t tokens;
    // since the start
    // Pages that attention read, summed over steps and sequences: for a sequence that commits tokens, its pages that
    // are not behind the window.
    int64_t lookups;
    int64_t misses;          // of them, pages that had been taken or copied since the commit before
    int64_t evictions;       // cached pages given up for others, or for a smaller budget
    int64_t copies;          // copies on write
    int64_t prefix_queries;  // tokens of the prompts that asked for a prefix to adopt
    int64_t prefix_hits;     // of them, tokens adopted

    double hit_rate() const {
        return lookups == 0 ? 1.0 : 1.0 - static_cast<double>(misses) / static_cast<double>(lookups);
    }
    // The part of the used pages' cells that holds no token.
    double fragmentation(int32_t page_size) const {
        return used == 0 ? 0.0 : 1.0 - static_cast<double>(tokens) / (static_cast<double>(used) * page_size);
    }
};

}  // namespace orin
