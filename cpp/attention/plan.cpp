#include "plan.h"

#include <algorithm>

namespace orin::attention {

namespace {

// Work of a block for one KV head.
int64_t cost_of(const Block & block) {
    return int64_t(block.n_tokens) * (block.end - block.begin);
}

int32_t n_tiles(const Block & block) {
    return (block.end - block.begin + tile - 1) / tile;
}

// Tokens from `token` on that make a block.
int32_t block_length(const PagedAttention & a, int32_t token, int32_t longest) {
    const int32_t end = std::min(a.n_tokens, token + longest);
    int32_t next = token + 1;
    while (next < end && a.rows[next] == a.rows[token] && a.positions[next] == a.positions[next - 1] + 1) {
        ++next;
    }
    return next - token;
}

}  // namespace

Plan make_plan(const PagedAttention & a, int nth, Block * blocks) {
    const int32_t longest = std::max(1, block_rows / (a.n_head / a.n_head_kv));
    Plan plan = {blocks, 0, a.n_head_kv, 0};
    int64_t cost = 0;
    for (int32_t token = 0; token < a.n_tokens;) {
        Block & block = blocks[plan.n_blocks++];
        block = {};
        block.token = token;
        block.n_tokens = block_length(a, token, longest);
        block.begin = a.window == 0 ? 0 : std::max(0, a.positions[token] - a.window + 1);
        block.end = a.positions[token] + block.n_tokens;
        cost += cost_of(block) * a.n_head_kv;
        token += block.n_tokens;
    }
    // Rounded up, so that fewer than max_cut_heads heads cost more.
    const int64_t n_wanted = items_per_thread * int64_t(nth);
    const int64_t largest = nth == 1 ? cost : (cost + n_wanted - 1) / n_wanted;
    int32_t n_pieces = 0;
    int32_t n_cut_heads = 0;
    for (int32_t i = 0; i < plan.n_blocks; ++i) {
        Block & block = blocks[i];
        block.n_pieces = int32_t(std::min<int64_t>((cost_of(block) + largest - 1) / largest, n_tiles(block)));
        plan.n_items += a.n_head_kv * block.n_pieces;
        block.end_item = plan.n_items;
        if (block.n_pieces > 1) {
            block.first_piece = n_pieces;
            block.first_cut_head = n_cut_heads;
            n_pieces += a.n_head_kv * block.n_pieces;
            n_cut_heads += a.n_head_kv;
        }
    }
    return plan;
}

Item Plan::item(int32_t i, const Block * block) const {
    while (i >= block->end_item) {
        ++block;
    }
    const int32_t in_block = i - (block->end_item - n_kv_heads * block->n_pieces);
    const int32_t piece = in_block % block->n_pieces;
    const int64_t tiles = n_tiles(*block);
    const auto begin_of = [&](int32_t p) { return block->begin + int32_t(tiles * p / block->n_pieces) * tile; };
    return {block, in_block / block->n_pieces, piece, begin_of(piece), std::min(begin_of(piece + 1), block->end)};
}

}  // namespace orin::attention
