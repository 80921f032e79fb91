// A model without weights over real cells: keys and values are the tokens themselves, and the next token depends on
// everything that attention would read. What is lost, mixed up or overwritten in the pool changes the text.
#pragma once

#include <set>
#include <vector>

#include "check.h"
#include "scheduler/scheduler.h"

namespace orin {

class FakeModel {
   public:
    FakeModel(int32_t n_pages, int32_t page_size, int32_t window, int32_t n_vocab)
        : page_size_(page_size), window_(window), n_vocab_(n_vocab), cells_(size_t(n_pages) * size_t(page_size)) {}

    // What follows these tokens. Token 0 ends a text.
    int32_t next(const std::vector<int32_t> & tokens) const {
        const int32_t n = static_cast<int32_t>(tokens.size());
        uint64_t hash = 0;
        for (int32_t i = first_seen(n - 1); i < n; i++) {
            hash = mix(hash, tokens[size_t(i)], i);
        }
        return drawn(hash);
    }

    // Computes the first n_rows rows; all of them, unless the step is to fail on the way.
    void compute(const StepBatch & batch, size_t n_rows) {
        for (const PageCopy & copy : batch.copies) {
            for (int32_t i = 0; i < copy.n_tokens; i++) {
                cells_[cell(copy.to, i)] = cells_[cell(copy.from, i)];
            }
        }
        std::set<int64_t> written;
        for (size_t i = 0; i < n_rows; i++) {
            const BatchRow & row = batch.rows[i];
            CHECK(row.cell >= page_size_);  // not in the scratch page
            CHECK(written.insert(row.cell).second);
            cells_[size_t(row.cell)] = {row.token, row.position};
        }
    }

    // What a row looks back at, itself included.
    std::vector<int64_t> cells_seen(const PagedKv & kv, const BatchRow & row) const {
        std::vector<int64_t> cells;
        for (int32_t i = first_seen(row.position); i <= row.position; i++) {
            cells.push_back(kv.cell(row.sequence, i));
        }
        return cells;
    }

    // The token after the row at this position, from what is in these cells now.
    int32_t sample(const std::vector<int64_t> & cells, int32_t position) const {
        uint64_t hash = 0;
        int32_t i = first_seen(position);
        for (const int64_t seen : cells) {
            const Cell & read = cells_[size_t(seen)];
            CHECK(read.position == i);
            hash = mix(hash, read.token, i++);
        }
        return drawn(hash);
    }

    int32_t sample(const PagedKv & kv, const BatchRow & row) const { return sample(cells_seen(kv, row), row.position); }

    int32_t token_at(const PagedKv & kv, SequenceId sequence, int32_t position) const {
        return cells_[size_t(kv.cell(sequence, position))].token;
    }

   private:
    struct Cell {
        int32_t token = -1;
        int32_t position = -1;
    };

    size_t cell(PageId page, int32_t offset) const { return size_t(page) * size_t(page_size_) + size_t(offset); }
    int32_t first_seen(int32_t position) const {
        return window_ == 0 || position < window_ ? 0 : position - window_ + 1;
    }
    static uint64_t mix(uint64_t hash, int32_t token, int32_t position) {
        hash = (hash ^ (uint64_t(uint32_t(token)) + 0x9E3779B97F4A7C15u)) * 0xD6E8FEB86659FD93u;
        return hash ^ (hash >> 29) ^ uint64_t(uint32_t(position));
    }
    int32_t drawn(uint64_t hash) const { return static_cast<int32_t>((hash >> 20) % uint64_t(n_vocab_)); }

    int32_t page_size_;
    int32_t window_;
    int32_t n_vocab_;
    std::vector<Cell> cells_;
};

}  // namespace orin
