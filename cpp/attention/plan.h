// Cuts a step's attention into work items that threads take one by one.
//
// Tokens of a row at consecutive positions make a prefill run, which is cut into blocks; any other token is a block of
// its own. An item is (block, KV head, piece of the context). The context is cut only where there are too few items to
// keep all threads busy to the end.
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

// Bounds of what a plan for nth threads cuts.
constexpr int max_cut_heads(int nth) {
    return items_per_thread * nth;
}
constexpr int max_pieces(int nth) {
    return 2 * items_per_thread * nth;
}

struct Block {
    int32_t token;           // the first
    int32_t n_tokens;        // at consecutive positions
    int32_t begin;           // first position that any of them attends to
    int32_t end;             // behind the last
    int32_t n_pieces;        // of the context, for each KV head
    int32_t end_item;        // number of items up to and with this block
    int32_t first_piece;     // of those of all cut blocks; piece = first_piece + kv_head * n_pieces + i
    int32_t first_cut_head;  // likewise: one for each KV head of a cut block
};

struct Item {
    const Block * block;
    int32_t kv_head;
    int32_t piece;  // 0 … n_pieces - 1
    int32_t begin;  // positions of the piece
    int32_t end;
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
