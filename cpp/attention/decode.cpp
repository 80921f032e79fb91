#include "decode.h"

#include <algorithm>

#include "digits.h"
#include "exponential.h"
#include "kv_rows.h"
#include "merge.h"
#include "scores.h"

namespace orin::attention {

namespace {

constexpr int most_heads = 4;                                        // processed together
constexpr int n_accumulators = n_registers == 32 ? 16 : 8;           // leaves registers for the operands
constexpr int most_keys = values_read > lanes ? 8 : n_accumulators;  // rows of K processed together
static_assert(tile % most_keys == 0 && tile % lanes == 0);

// scores[head][key] = q[head]·K[key]. q: [n_heads] rows of dim values, q_stride apart; keys: n rows, up to a multiple
// of most_keys; scores: [n_heads, tile]
// Not inlined: among its callers' values it runs short of registers.
template <typename Row, int n_heads>
[[gnu::noinline]] void score(const float * q, int64_t q_stride, int dim, const char * const * keys, int n,
                             float * scores) {
    constexpr int n_keys = std::min(most_keys, n_accumulators / (n_heads == 3 ? 4 : n_heads));
    constexpr int n_sums = (n_heads * n_keys + lanes - 1) / lanes * lanes;
    for (int key = 0; key < n; key += n_keys) {
        Floats sums[n_sums] = {};
        for (int i = 0; i < dim; i += values_read) {
            Values k[n_keys];
#pragma GCC unroll 16
            for (int j = 0; j < n_keys; ++j) {
                k[j] = Row::load(keys[key + j], i);
            }
#pragma GCC unroll 4
            for (int part = 0; part < vectors_read; ++part) {
#pragma GCC unroll 4
                for (int h = 0; h < n_heads; ++h) {
                    const Floats x = load(q + h * q_stride + i + part * lanes);
#pragma GCC unroll 16
                    for (int j = 0; j < n_keys; ++j) {
                        sums[h * n_keys + j] += x * k[j].of[part];
                    }
                }
            }
        }
        store_sums<n_heads, n_keys>(sums, scores + key, tile);
    }
}

// values[head] = rescale[head] · values[head] + Σ weights[head][t] · V[t], for n_reads · values_read from `column`.
template <typename Row, int n_heads, int n_reads>
void add_columns(const float * weights, const float * rescale, const char * const * rows, int n, int dim, int column,
                 float * values) {
    constexpr int n_columns = n_reads * vectors_read;
    Floats sums[n_heads][n_columns] = {};
    for (int t = 0; t < n; ++t) {
        Values v[n_reads];
#pragma GCC unroll 4
        for (int i = 0; i < n_reads; ++i) {
            v[i] = Row::load(rows[t], column + i * values_read);
        }
#pragma GCC unroll 4
        for (int h = 0; h < n_heads; ++h) {
            const float weight = weights[h * tile + t];
#pragma GCC unroll 8
            for (int c = 0; c < n_columns; ++c) {
                sums[h][c] += weight * v[c / vectors_read].of[c % vectors_read];
            }
        }
    }
#pragma GCC unroll 4
    for (int h = 0; h < n_heads; ++h) {
#pragma GCC unroll 8
        for (int c = 0; c < n_columns; ++c) {
            float * to = values + h * dim + column + c * lanes;
            // The old value comes last: a sum of sums loses less than one long sum.
            store(to, sums[h][c] + load(to) * rescale[h]);
        }
    }
}

template <typename Row, int n_heads>
void add_values(const float * weights, const float * rescale, const char * const * rows, int n, int dim,
                float * values) {
    constexpr int n_reads = (n_registers == 32 || n_heads <= 2 ? 4 : 2) / vectors_read;
    constexpr int wide = n_reads * values_read;
    int column = 0;
    for (; column + wide <= dim; column += wide) {
        add_columns<Row, n_heads, n_reads>(weights, rescale, rows, n, dim, column, values);
    }
    for (; column < dim; column += values_read) {
        add_columns<Row, n_heads, 1>(weights, rescale, rows, n, dim, column, values);
    }
}

// Calls f with a std::integral_constant of min(n, most_heads).
template <typename Function>
void with_heads(int n, Function && f) {
    switch (n) {
        case 1:
            return f(std::integral_constant<int, 1>{});
        case 2:
            return f(std::integral_constant<int, 2>{});
        case 3:
            return f(std::integral_constant<int, 3>{});
        default:
            return f(std::integral_constant<int, most_heads>{});
    }
}

// Q of some heads, as floats or as digits.
struct Queries {
    const float * at;
    int64_t stride;
};

// Of all heads of an item.
Queries queries(const PagedAttention & a, const Item & item, const Desk & desk) {
    const int group = a.n_head / a.n_head_kv;
    const float * q = a.q + item.block->token * a.q_token_stride + item.kv_head * group * a.q_head_stride;
    return with_row_type(a.k_type, [&](auto row) -> Queries {
        if constexpr (scored_by_digits<decltype(row)>) {
            for (int head = 0; head < item.n_kv_heads * group; ++head) {
                to_digits(q + head * a.q_head_stride, a.head_dim_k, desk.q + head * a.head_dim_k);
            }
            return {desk.q, a.head_dim_k};
        } else {
            return {q, a.q_head_stride};
        }
    });
}

// q: of the group's first head
void score_all(const PagedAttention & a, const Desk & desk, const Queries & q, int n) {
    const int group = a.n_head / a.n_head_kv;
    with_row_type(a.k_type, [&](auto row) {
        for (int head = 0; head < group; head += most_heads) {
            with_heads(group - head, [&](auto n_heads) {
                const float * at = q.at + head * q.stride;
                float * scores = desk.scores + head * tile;
                if constexpr (scored_by_digits<decltype(row)>) {
                    score_by_digits<decltype(row), n_heads.value>(at, q.stride, a.head_dim_k, desk.rows, n, scores);
                } else {
                    score<decltype(row), n_heads.value>(at, q.stride, a.head_dim_k, desk.rows, n, scores);
                }
            });
        }
    });
}

void add_all(const PagedAttention & a, const Desk & desk, int n, const Sums & sums) {
    const int group = a.n_head / a.n_head_kv;
    with_row_type(a.v_type, [&](auto row) {
        for (int head = 0; head < group; head += most_heads) {
            with_heads(group - head, [&](auto n_heads) {
                add_values<decltype(row), n_heads.value>(desk.scores + head * tile, desk.rescale + head, desk.rows, n,
                                                         a.head_dim_v, sums.values + head * a.head_dim_v);
            });
        }
    });
}

// q·K of one head becomes weights. scores: [tile], of which n; returns what earlier weights are to be multiplied by.
float weigh(const PagedAttention & a, float * scores, int n, float & max, float & weights) {
    finish_scores(a, n, scores);
    const int end = (n + lanes - 1) / lanes * lanes;
    std::fill(scores + n, scores + end, -__builtin_inff());
    Floats highest = fill(max);
    for (int t = 0; t < end; t += lanes) {
        highest = larger(load(scores + t), highest);
    }
    const float new_max = largest(highest);
    const float rescale = exp(max - new_max);
    Floats sum = {};
    for (int t = 0; t < end; t += lanes) {
        const Floats weight = exp(load(scores + t) - new_max);
        sum += weight;
        store(scores + t, weight);
    }
    max = new_max;
    weights = weights * rescale + sum_of(sum);
    return rescale;
}

// Tells the processor to load what lies from the first to behind the last head in n rows.
void fetch(const HeadRows & head, int32_t position, int n, size_t bytes, const char ** rows) {
    head.gather(position, n, n, rows);
    for (int i = 0; i < n; ++i) {
        for (size_t at = 0; at < bytes; at += 64) {
            __builtin_prefetch(rows[i] + at, /*to be written=*/0, /*in the second cache=*/2);
        }
    }
}

// One tile of one KV head. q, sums: of the group's first head
void decode_tile(const PagedAttention & a, const KvHead & kv, const Queries & q, int32_t position, int n,
                 const Desk & desk, const Sums & sums) {
    kv.k.gather(position, n, (n + most_keys - 1) / most_keys * most_keys, desk.rows);
    score_all(a, desk, q, n);
    for (int h = 0; h < a.n_head / a.n_head_kv; ++h) {
        desk.rescale[h] = weigh(a, desk.scores + h * tile, n, sums.max[h], sums.weights[h]);
    }
    kv.v.gather(position, n, n, desk.rows);
    add_all(a, desk, n, sums);
}

}  // namespace

void decode(const PagedAttention & a, const Item & item, const Desk & desk, const Sums & sums) {
    const int group = a.n_head / a.n_head_kv;
    const int32_t token = item.block->token;
    start_sums(a, item, item.n_kv_heads * group, sums);
    const Queries q = queries(a, item, desk);
    const KvHead first(a, a.rows[token], item.kv_head);
    for (int32_t position = item.begin; position < item.end; position += tile) {
        const int n = std::min(tile, item.end - position);
        // The heads of a cell lie together: asking for all of them in that order keeps memory streaming.
        fetch(first.k, position, n, row_bytes(a.k_type, item.n_kv_heads * a.head_dim_k), desk.rows);
        fetch(first.v, position, n, row_bytes(a.v_type, item.n_kv_heads * a.head_dim_v), desk.rows);
        for (int i = 0; i < item.n_kv_heads; ++i) {
            const int head = i * group;
            const Queries of_group = {q.at + head * q.stride, q.stride};
            const Sums of_head = {sums.max + head, sums.weights + head, sums.values + head * a.head_dim_v};
            decode_tile(a, KvHead(a, a.rows[token], item.kv_head + i), of_group, position, n, desk, of_head);
        }
    }
}

}  // namespace orin::attention
