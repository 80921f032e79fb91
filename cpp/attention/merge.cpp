#include "merge.h"

#include <algorithm>

#include "exponential.h"

namespace orin::attention {

namespace {

// Below any score, and far enough from the limits of float that differences to it are finite.
constexpr float no_score = -1e38f;

int heads_of(const PagedAttention & a, const Item & item) {
    return item.n_kv_heads * (a.n_head / a.n_head_kv);
}

int rows_of(const PagedAttention & a, const Item & item) {
    return item.block->n_tokens * heads_of(a, item);
}

// The query head of row r, which is token r / heads_of(item) of the block.
int head_of(const PagedAttention & a, const Item & item, int r) {
    return item.kv_head * (a.n_head / a.n_head_kv) + r % heads_of(a, item);
}

float * output_of(const PagedAttention & a, const Item & item, int r) {
    const int64_t token = item.block->token + r / heads_of(a, item);
    return a.out + (token * a.n_head + head_of(a, item, r)) * a.head_dim_v;
}

// to = x · from, or added to it. n % lanes == 0
template <bool add>
void scale_into(float * to, const float * from, float x, int n) {
    for (int i = 0; i < n; i += lanes) {
        const Floats scaled = load(from + i) * x;
        store(to + i, add ? load(to + i) + scaled : scaled);
    }
}

}  // namespace

void start_sums(const PagedAttention & a, const Item & item, int n_rows, const Sums & sums) {
    const bool sinks = a.sinks != nullptr && item.piece == 0;
    for (int r = 0; r < n_rows; ++r) {
        sums.max[r] = sinks ? std::max(a.sinks[head_of(a, item, r)], no_score) : no_score;
        sums.weights[r] = sinks ? 1.0f : 0.0f;
    }
    std::fill(sums.values, sums.values + n_rows * a.head_dim_v, 0.0f);
}

void write_output(const PagedAttention & a, const Item & item, const Sums & sums) {
    for (int r = 0; r < rows_of(a, item); ++r) {
        scale_into<false>(output_of(a, item, r), sums.values + r * a.head_dim_v, 1.0f / sums.weights[r], a.head_dim_v);
    }
}

void merge_pieces(const PagedAttention & a, const Item & item, const Workspace & workspace) {
    const int32_t n_pieces = item.block->n_pieces;
    const int32_t first = item.first_piece();
    const int n_rows = rows_of(a, item);
    for (int r = 0; r < n_rows; ++r) {
        float max = no_score;
        for (int32_t i = 0; i < n_pieces; ++i) {
            max = std::max(max, workspace.piece(first + i).max[r]);
        }
        float * out = output_of(a, item, r);
        float weights = 0.0f;
        for (int32_t i = 0; i < n_pieces; ++i) {
            const Sums piece = workspace.piece(first + i);
            const float rescale = exp(piece.max[r] - max);
            weights += rescale * piece.weights[r];
            const float * values = piece.values + r * a.head_dim_v;
            if (i == 0) {
                scale_into<false>(out, values, rescale, a.head_dim_v);
            } else {
                scale_into<true>(out, values, rescale, a.head_dim_v);
            }
        }
        scale_into<false>(out, out, 1.0f / weights, a.head_dim_v);
    }
}

}  // namespace orin::attention
