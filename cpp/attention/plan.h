// Cuts a step's attention into work items that threads take one by one.
//
// Tokens of a row at consecutive positions make a prefill run, which is cut into blocks; any other token is a block of
// its own. An item is (block, some KV heads, piece of the context). A block of several tokens has one KV head an item,
// as its products are large. For a single token all KV heads of a tile are read together, as they lie side by side in
// memory; its context and, where that is short, its heads are cut only so far that all threads are busy to the end.
#pragma once

#include <cstdint>

#include "paged_attention.h"

namespace orin::attention {

// Positions that kernels work on at a time. A piece begins a whole number of tiles after its block's context does.
inline constexpr int tile = 64;

// Heads of the query tokens that share a KV head are processed together, as rows; a block has about this many.
inline constexpr int block_rows = 64;

// Items for each thread: the last thread to finish is late by at most one of them.
inline constexpr int items_per_thread = 8;

// Bounds of what a plan for nth threads cuts: see make_plan.
constexpr int max_cut_parts(int nth) {
    return 2 * items_per_thread * nth;
}
constexpr int max_pieces(int nth) {
    return 4 * items_per_thread * nth;
}

struct Block {
    int32_t token;     // the first
    int32_t n_tokens;  // at consecutive positions
    int32_t begin;     // first position that any of them attends to
    int32_t end;       // behind the last
    int32_t n_parts;   // of the KV heads
    int32_t n_pieces;  // of the context
    int32_t end_item;  // number of items up to and with this block
    // Of a block with several pieces, among those of all such blocks:
    int32_t first_part;
    int32_t first_piece;  // a part's pieces lie together
};

struct Item {
    const Block * block;
    int32_t part;
    int32_t kv_head;  // the first
    int32_t n_kv_heads;
    int32_t piece;  // 0 … n_pieces - 1
    int32_t begin;  // positions of the piece
    int32_t end;

    int32_t cut_part() const { return block->first_part + part; }
    int32_t first_piece() const { return block->first_piece + part * block->n_pieces; }
};

struct Plan {
    Block * blocks;
    int32_t n_blocks;
    int32_t n_kv_heads;
    int32_t n_items;

    // PRECOND: 0 <= i < n_items; `block` is that of an earlier item, or `blocks`.
    Item item(int32_t i, const Block * block) const;
};

// blocks: memory for n_tokens. Every thread makes the same plan for itself.
Plan make_plan(const PagedAttention & attention, int nth, Block * blocks);

}  // namespace orin::attention
