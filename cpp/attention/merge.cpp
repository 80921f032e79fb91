#include "merge.h"

#include <algorithm>

#include "exponential.h"

namespace orin::attention {

namespace {

// Below any score, and far enough from the limits of float that differences to it are finite.
constexpr float no_score = -1e38f;

// Row r of an item is this head of this token.
float * output_of(const PagedAttention & a, const Item & item, int r) {
    const int group = a.n_head / a.n_head_kv;
    const int64_t token = item.block->token + r / group;
    const int64_t head = int64_t(item.kv_head) * group + r % group;
    return a.out + (token * a.n_head + head) * a.head_dim_v;
}

int rows_of(const PagedAttention & a, const Item & item) {
    return item.block->n_tokens * (a.n_head / a.n_head_kv);
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
    const int group = a.n_head / a.n_head_kv;
    const bool sinks = a.sinks != nullptr && item.piece == 0;
    for (int r = 0; r < n_rows; ++r) {
        sums.max[r] = sinks ? std::max(a.sinks[item.kv_head * group + r % group], no_score) : no_score;
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
    const Block & block = *item.block;
    const int32_t first = block.first_piece + item.kv_head * block.n_pieces;
    const int n_rows = rows_of(a, item);
    for (int r = 0; r < n_rows; ++r) {
        float max = no_score;
        for (int32_t i = 0; i < block.n_pieces; ++i) {
            max = std::max(max, workspace.piece(first + i).max[r]);
        }
        float * out = output_of(a, item, r);
        float weights = 0.0f;
        for (int32_t i = 0; i < block.n_pieces; ++i) {
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
