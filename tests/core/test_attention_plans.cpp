// Plans of random steps: every token, KV head and position in exactly one item, within the bounds that size a
// workspace, and enough items for all threads.
#include <algorithm>
#include <vector>

#include "attention/plan.h"
#include "check.h"

namespace orin::attention {
namespace {

struct Step {
    PagedAttention op;
    std::vector<int32_t> rows, positions;

    explicit Step(Random & random) {
        op.n_head_kv = 1 + random.below(8);
        op.n_head = op.n_head_kv * (1 + random.below(9));
        op.window = random.one_in(3) ? 1 + random.below(300) : 0;
        const int32_t n_sequences = 1 + random.below(random.one_in(4) ? 40 : 4);
        for (int32_t row = 0; row < n_sequences; ++row) {
            const int32_t past = random.below(random.one_in(4) ? 20000 : 300);
            const int32_t n_new = random.one_in(3) ? 1 + random.below(200) : 1;
            for (int32_t i = 0; i < n_new; ++i) {
                rows.push_back(row);
                positions.push_back(past + i);
            }
        }
        op.n_tokens = int32_t(rows.size());
        op.rows = rows.data();
        op.positions = positions.data();
    }

    int32_t first_seen(int32_t token) const {
        return op.window == 0 ? 0 : std::max(0, positions[size_t(token)] - op.window + 1);
    }
};

// What an item covers is counted for its block as (KV heads · positions): items do not overlap if in order they join.
void check_cover(const Step & step, const Plan & plan) {
    int32_t token = 0;
    int64_t covered = 0;
    const Block * block = plan.blocks;
    for (int32_t i = 0; i < plan.n_items; ++i) {
        const Item item = plan.item(i, block);
        if (item.block != block) {
            CHECK(item.block == block + 1);
            token += block->n_tokens;
            covered = 0;
        }
        block = item.block;
        CHECK(block->token == token);
        CHECK(block->begin == step.first_seen(token));
        CHECK(block->end == step.positions[size_t(token + block->n_tokens - 1)] + 1);
        for (int32_t t = token + 1; t < token + block->n_tokens; ++t) {
            CHECK(step.rows[size_t(t)] == step.rows[size_t(t - 1)]);
            CHECK(step.positions[size_t(t)] == step.positions[size_t(t - 1)] + 1);
        }
        CHECK(block->n_tokens == 1 || item.n_kv_heads == 1);
        CHECK(item.n_kv_heads > 0 && item.begin < item.end);
        // Pieces of a part follow one another, and parts do.
        const int64_t length = block->end - block->begin;
        CHECK(covered == item.kv_head * length + int64_t(item.n_kv_heads) * (item.begin - block->begin));
        covered += int64_t(item.n_kv_heads) * (item.end - item.begin);
        CHECK((item.begin - block->begin) % tile == 0);
    }
    CHECK(token + block->n_tokens == step.op.n_tokens);
    CHECK(covered == int64_t(step.op.n_head_kv) * (block->end - block->begin));
}

void check_bounds(const Plan & plan, int nth) {
    std::vector<bool> pieces(size_t(max_pieces(nth)));
    std::vector<bool> parts(size_t(max_cut_parts(nth)));
    const Block * block = plan.blocks;
    for (int32_t i = 0; i < plan.n_items; ++i) {
        const Item item = plan.item(i, block);
        block = item.block;
        if (block->n_pieces == 1) {
            continue;
        }
        const auto piece = size_t(item.first_piece() + item.piece);
        CHECK(piece < pieces.size() && !pieces[piece]);
        pieces[piece] = true;
        const auto part = size_t(item.cut_part());
        CHECK(part < parts.size() && (item.piece > 0 || !parts[part]));
        parts[part] = true;
    }
}

// However few its heads, a token with a context of so many tiles keeps all threads busy.
void check_lone_token(int nth) {
    for (const int32_t n_head_kv : {1, 2, 3, 8}) {
        int32_t row = 0;
        int32_t position = items_per_thread * nth * tile - 1;
        PagedAttention op;
        op.n_head = op.n_head_kv = n_head_kv;
        op.n_tokens = 1;
        op.rows = &row;
        op.positions = &position;
        Block block;
        CHECK(make_plan(op, nth, &block).n_items >= (nth == 1 ? 1 : items_per_thread * nth));
    }
}

}  // namespace
}  // namespace orin::attention

int main(int argc, char ** argv) {
    using namespace orin::attention;
    orin::Random random(23);
    const int64_t n_steps = orin::operations(argc, argv, 3000);
    for (int64_t i = 0; i < n_steps; ++i) {
        const Step step(random);
        std::vector<Block> blocks(step.rows.size());
        const int nth = 1 + random.below(16);
        const Plan plan = make_plan(step.op, nth, blocks.data());
        check_cover(step, plan);
        check_bounds(plan, nth);
    }
    for (int nth = 1; nth <= 64; ++nth) {
        check_lone_token(nth);
    }
}
