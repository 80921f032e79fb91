#include "plan.h"

#include <algorithm>

namespace orin::attention {

namespace {

constexpr int32_t tiles_of_long_piece = 4;

int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

int64_t cost_of(const PagedAttention & a, const Block & block) {
    return int64_t(block.n_tokens) * (block.end - block.begin) * a.n_head_kv;
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

// Cuts a block into about n items, fewer than 2 n, or into one for each KV head.
void cut(const PagedAttention & a, int64_t n, Block & block) {
    const int64_t tiles = n_tiles(block);
    int64_t n_parts = a.n_head_kv;
    if (block.n_tokens == 1) {
        const int64_t n_long_pieces = std::clamp<int64_t>(tiles / tiles_of_long_piece, 1, n);
        n_parts = std::min(n_parts, divide_up(n, n_long_pieces));
    }
    block.n_parts = int32_t(n_parts);
    block.n_pieces = int32_t(std::min(tiles, divide_up(n, n_parts)));
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
        cost += cost_of(a, block);
        token += block.n_tokens;
    }
    // A block that costs more than `largest` is to be cut: fewer than items_per_thread · nth blocks, into n items each
    // whose sum is below twice that. A cut into n makes at most n parts, and fewer than 2 n items.
    const int64_t largest = nth == 1 ? cost : divide_up(cost, int64_t(items_per_thread) * nth);
    int32_t n_parts = 0;
    int32_t n_pieces = 0;
    for (int32_t i = 0; i < plan.n_blocks; ++i) {
        Block & block = blocks[i];
        cut(a, divide_up(cost_of(a, block), largest), block);
        plan.n_items += block.n_parts * block.n_pieces;
        block.end_item = plan.n_items;
        if (block.n_pieces > 1) {
            block.first_part = n_parts;
            block.first_piece = n_pieces;
            n_parts += block.n_parts;
            n_pieces += block.n_parts * block.n_pieces;
        }
    }
    return plan;
}

Item Plan::item(int32_t i, const Block * block) const {
    while (i >= block->end_item) {
        ++block;
    }
    const int32_t in_block = i - (block->end_item - block->n_parts * block->n_pieces);
    Item item;
    item.block = block;
    item.part = in_block / block->n_pieces;
    item.kv_head = n_kv_heads * item.part / block->n_parts;
    item.n_kv_heads = n_kv_heads * (item.part + 1) / block->n_parts - item.kv_head;
    item.piece = in_block % block->n_pieces;
    const int64_t tiles = n_tiles(*block);
    item.begin = block->begin + int32_t(tiles * item.piece / block->n_pieces) * tile;
    item.end = std::min(block->begin + int32_t(tiles * (item.piece + 1) / block->n_pieces) * tile, block->end);
    return item;
}

}  // namespace orin::attention
