// The sizes and rules of a page pool.
#pragma once

#include <cstdint>

namespace orin {

using PageId = int32_t;

constexpr PageId scratch_page = 0;  // idle lanes write here; never part of a sequence

constexpr int32_t unknown_token = -1;  // stands for a token that is not known yet

struct PagedKvConfig {
    int32_t n_pages = 0;     // capacity, the scratch page included
    int32_t page_size = 16;  // tokens, a power of two
    int32_t max_sequences = 16;
    int32_t max_tokens = 0;  // of one sequence
    // Tokens that attention looks at; 0: all. The query at position p sees the positions p - window + 1 … p.
    int32_t window = 0;
    bool prefix_cache = true;
    uint64_t hash_seed = 0;  // unknown to who writes prompts, or they could make look-ups slow
    int32_t hash_bits = 64;  // tests take fewer, to force collisions

    // std::invalid_argument says which setting is wrong.
    void check() const;

    // Pages that hold n_tokens.
    int32_t pages_for(int32_t n_tokens) const { return n_tokens / page_size + (n_tokens % page_size != 0); }

    // The first page that the query at this position sees; those before it are behind the window.
    int32_t first_page_seen(int32_t position) const {
        return window == 0 || position < window ? 0 : (position - window + 1) / page_size;
    }
};

}  // namespace orin
