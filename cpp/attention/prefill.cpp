#include "prefill.h"

#include <algorithm>
#include <cstring>

#include "exponential.h"
#include "kv_rows.h"
#include "merge.h"
#include "product.h"
#include "scores.h"

namespace orin::attention {

namespace {

constexpr int round_up(int n, int to) {
    return (n + to - 1) / to * to;
}

// The rows of an item: heads of the group times tokens, padded to whole vectors with copies of the last token's.
struct Rows {
    int n;
    int n_padded;
    int group;

    Rows(const PagedAttention & a, const Block & block) : group(a.n_head / a.n_head_kv) {
        n = block.n_tokens * group;
        n_padded = round_up(n, lanes);
    }

    int token(int r) const { return std::min(r, n - 1) / group; }
    int head(int r) const { return r % group; }
};

// q: [head_dim_k, n_padded]
void transpose_q(const PagedAttention & a, const Item & item, const Rows & rows, float * q) {
    for (int r = 0; r < rows.n_padded; ++r) {
        const float * from = a.q + (item.block->token + rows.token(r)) * a.q_token_stride +
                             (int64_t(item.kv_head) * rows.group + rows.head(r)) * a.q_head_stride;
        for (int i = 0; i < a.head_dim_k; ++i) {
            q[i * rows.n_padded + r] = from[i];
        }
    }
}

// to: [n, dim]
void to_floats(KvType type, const char * const * from, int n, int dim, float * to) {
    with_row_type(type, [&](auto row) {
        for (int t = 0; t < n; ++t) {
            for (int i = 0; i < dim; i += values_read) {
                const Values values = decltype(row)::load(from[t], i);
                std::memcpy(to + t * dim + i, &values, sizeof values);
            }
        }
    });
}

// Masks scores of positions that a row's token does not attend to. scores: [n, n_padded] of positions from `position`.
void mask(const PagedAttention & a, const Item & item, const Rows & rows, int32_t position, int n, float * scores) {
    for (int token = 0; token < item.block->n_tokens; ++token) {
        // This token attends to [begin, end) of the n positions.
        const int32_t last = a.positions[item.block->token + token] - position;
        const int end = std::clamp(last + 1, 0, n);
        const int begin = a.window == 0 ? 0 : std::clamp(last - a.window + 1, 0, n);
        const auto hide = [&](int t) {
            float * row = scores + t * rows.n_padded + token * rows.group;
            std::fill(row, row + rows.group, -__builtin_inff());
        };
        for (int t = 0; t < begin; ++t) {
            hide(t);
        }
        for (int t = end; t < n; ++t) {
            hide(t);
        }
    }
}

// Scores become weights. scores: [n, n_padded]; rescale: what each row's earlier weights are to be multiplied by.
void weigh(int n, int n_rows, float * scores, const Sums & sums, float * rescale) {
    for (int r = 0; r < n_rows; r += lanes) {
        const Floats max = load(sums.max + r);
        Floats highest = max;
        for (int t = 0; t < n; ++t) {
            highest = larger(load(scores + t * n_rows + r), highest);
        }
        const Floats factor = exp(max - highest);
        Floats weights = {};
        for (int t = 0; t < n; ++t) {
            const Floats weight = exp(load(scores + t * n_rows + r) - highest);
            weights += weight;
            store(scores + t * n_rows + r, weight);
        }
        store(sums.max + r, highest);
        store(sums.weights + r, weights + load(sums.weights + r) * factor);
        store(rescale + r, factor);
    }
}

}  // namespace

void prefill(const PagedAttention & a, const Item & item, const Desk & desk, const Sums & sums) {
    const Rows rows(a, *item.block);
    transpose_q(a, item, rows, desk.q);
    start_sums(a, item, rows.n_padded, sums);
    const KvHead kv(a, a.rows[item.block->token], item.kv_head);
    for (int32_t position = item.begin; position < item.end; position += tile) {
        const int n = std::min(tile, item.end - position);
        const int n_keys = round_up(n, product_rows);
        kv.k.gather(position, n, n_keys, desk.rows);
        to_floats(a.k_type, desk.rows, n_keys, a.head_dim_k, desk.k);
        // scores: [tile, rows], so that rows fill vectors and nothing but q is transposed
        multiply({desk.k, a.head_dim_k, 1}, desk.q, n_keys, a.head_dim_k, rows.n_padded, nullptr, desk.scores);
        finish_scores(a, n * rows.n_padded, desk.scores);
        mask(a, item, rows, position, n, desk.scores);
        weigh(n, rows.n_padded, desk.scores, sums, desk.rescale);
        kv.v.gather(position, n, n, desk.rows);
        to_floats(a.v_type, desk.rows, n, a.head_dim_v, desk.v);
        multiply({desk.scores, 1, rows.n_padded}, desk.v, round_up(rows.n, product_rows), n, a.head_dim_v, desk.rescale,
                 sums.values);
    }
}

}  // namespace orin::attention
