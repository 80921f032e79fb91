// A KV cache in small: every cell remembers what was computed for it, so that a cell that was shared, overwritten or
// copied wrongly is seen when its sequence reads it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "check.h"
#include "naive_kv.h"

namespace orin {

// Keys and values depend on the token, its position and all tokens before it.
struct Cell {
    int32_t token;
    int32_t position;
    uint64_t history;

    bool operator==(const Cell & other) const {
        return token == other.token && position == other.position && history == other.history;
    }
};

class KvCells {
   public:
    explicit KvCells(const PagedKvConfig & config)
        : page_size_(config.page_size),
          window_(config.window),
          cells_(size_t(config.n_pages) * size_t(config.page_size), garbage) {}

    void copy(const std::vector<PageCopy> & copies) {
        for (const PageCopy & copy : copies) {
            CHECK(copy.from != copy.to && copy.n_tokens > 0 && copy.n_tokens < page_size_);
            std::copy_n(first(copy.from), copy.n_tokens, first(copy.to));
        }
    }

    // Computes what a sequence has placed.
    void write(const PagedKv & kv, SequenceId id, const TokenVector & tokens) {
        const std::vector<Cell> computed = compute(tokens);
        for (int32_t p = kv.n_committed(id); p < kv.n_tokens(id); p++) {
            at(kv.cell(id, p)) = computed[size_t(p)];
        }
    }

    // What was placed holds anything until it is computed, and after a step that failed on the way.
    void spoil(const PagedKv & kv, SequenceId id) {
        for (int32_t p = kv.n_committed(id); p < kv.n_tokens(id); p++) {
            at(kv.cell(id, p)) = garbage;
        }
    }

    void spoil_scratch() { std::fill_n(first(PagedKv::scratch_page), page_size_, garbage); }

    // All that the next query of a sequence looks back at is there, as it was computed for exactly these tokens.
    void check(const PagedKv & kv, SequenceId id, const TokenVector & tokens) {
        const std::vector<Cell> computed = compute(tokens);
        const std::vector<PageId> & table = kv.block_table(id);
        const int32_t n = kv.n_committed(id);
        for (int32_t p = window_ == 0 ? 0 : std::max(0, n - window_ + 1); p < n; p++) {
            const PageId page = table[size_t(p / page_size_)];
            CHECK(page != PagedKv::scratch_page);
            CHECK(kv.cell(id, p) == int64_t(page) * page_size_ + p % page_size_);
            CHECK(at(kv.cell(id, p)) == computed[size_t(p)]);
        }
    }

   private:
    static constexpr Cell garbage = {-1, -1, 0};

    static std::vector<Cell> compute(const TokenVector & tokens) {
        std::vector<Cell> computed;
        uint64_t history = 0;
        for (const int32_t token : tokens) {
            history = (history ^ (static_cast<uint64_t>(token) + 1)) * 0xff51afd7ed558ccd;
            history ^= history >> 32;
            computed.push_back({token, static_cast<int32_t>(computed.size()), history});
        }
        return computed;
    }

    Cell & at(int64_t cell) { return cells_.at(static_cast<size_t>(cell)); }
    Cell * first(PageId page) { return &at(int64_t(page) * page_size_); }

    const int32_t page_size_;
    const int32_t window_;
    std::vector<Cell> cells_;
};

}  // namespace orin
