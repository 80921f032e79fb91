// Memory of the attention op: what its threads share, and what each has for itself. Made once for an engine's largest
// step; any layer and step within the limits may use it, one at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "plan.h"

namespace orin::attention {

struct Limits {
    int32_t n_threads = 1;
    int32_t n_tokens = 1;  // of a step
    int32_t n_head = 1;
    int32_t head_dim_k = 0;
    int32_t head_dim_v = 0;
};

// Attention so far of some rows (query heads): the weights are relative to e^max.
struct Sums {
    float * max;      // [n_rows]
    float * weights;  // [n_rows]
    float * values;   // [n_rows, head_dim_v]: Σ weight · V
};

// What one thread works with.
struct Desk {
    Block * blocks;      // [n_tokens]
    const char ** rows;  // [tile]
    float * q;           // [n_rows, head_dim_k], transposed or as digits
    float * scores;      // [n_rows, tile], or transposed
    float * k;           // [tile, head_dim_k]
    float * v;           // [tile, head_dim_v]
    float * rescale;     // [n_rows]
    Sums sums;           // for n_rows
};

class Workspace {
   public:
    explicit Workspace(const Limits & limits);

    // What a workspace of these limits allocates.
    static size_t bytes(const Limits & limits);

    Desk desk(int ith) const;

    // Sums of an item whose block has several pieces.
    Sums piece(int32_t i) const;

    // The item that follows for a thread that has finished one; `nth` items are given out beforehand.
    int32_t next_item(int nth) { return nth + taken_.fetch_add(1, std::memory_order_relaxed); }

    // Whether this was the last piece of a part. What the others' threads wrote is then visible.
    bool finish_piece(int32_t cut_part, int32_t n_pieces);

    // The last thread to leave makes everything ready for the next call.
    void leave(int nth);

   private:
    Limits limits_;
    std::unique_ptr<std::byte[]> memory_;
    std::byte * start_;                                 // aligned
    std::unique_ptr<std::atomic<int32_t>[]> finished_;  // [max_cut_parts]: 0 between calls
    alignas(64) std::atomic<int32_t> taken_{0};
    std::atomic<int32_t> left_{0};
};

}  // namespace orin::attention
