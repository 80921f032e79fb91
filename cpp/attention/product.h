// Small matrix products whose result stays in registers.
#pragma once

#include <cstddef>

#include "lanes.h"

namespace orin::attention {

inline constexpr int product_rows = 4;  // rows of the result computed together

// A matrix whose value (i, k) is at[i * row + k * column].
struct Factor {
    const float * at;
    ptrdiff_t row;
    ptrdiff_t column;
};

// c = a·b, or with keep c = c scaled by keep[row] + a·b, for product_rows rows and n_columns · lanes columns.
// b: [n, b_width]; c: rows of c_width
template <int n_columns>
inline void multiply_block(Factor a, const float * b, ptrdiff_t b_width, int n, const float * keep, float * c,
                           ptrdiff_t c_width) {
    Floats sums[product_rows][n_columns] = {};
    for (int k = 0; k < n; ++k) {
        Floats right[n_columns];
#pragma GCC unroll 4
        for (int j = 0; j < n_columns; ++j) {
            right[j] = load(b + k * b_width + j * lanes);
        }
#pragma GCC unroll 4
        for (int i = 0; i < product_rows; ++i) {
            const float left = a.at[i * a.row + k * a.column];
#pragma GCC unroll 4
            for (int j = 0; j < n_columns; ++j) {
                sums[i][j] += left * right[j];
            }
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < product_rows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < n_columns; ++j) {
            float * to = c + i * c_width + j * lanes;
            // The old value comes last: a sum of sums loses less than one long sum.
            store(to, keep == nullptr ? sums[i][j] : sums[i][j] + keep[i] * load(to));
        }
    }
}

// c = a·b, or with keep c = c scaled by keep[row] + a·b. a: [n_rows, n]; b: [n, width]; c: [n_rows, width]
// PRECOND: n_rows % product_rows == 0; width % lanes == 0.
inline void multiply(Factor a, const float * b, int n_rows, int n, int width, const float * keep, float * c) {
    constexpr int wide = n_registers == 32 ? 4 : 2;
    const auto columns = [&](int column, auto n_columns) {
        for (int i = 0; i < n_rows; i += product_rows) {
            multiply_block<n_columns.value>({a.at + i * a.row, a.row, a.column}, b + column, width, n,
                                            keep == nullptr ? nullptr : keep + i, c + i * width + column, width);
        }
    };
    int column = 0;
    for (; column + wide * lanes <= width; column += wide * lanes) {
        columns(column, std::integral_constant<int, wide>{});
    }
    for (; column < width; column += lanes) {
        columns(column, std::integral_constant<int, 1>{});
    }
}

}  // namespace orin::attention
