// Rows of weights, block of 256 after block.
#pragma once

#include <cstdint>

namespace orin {

// Calls quantize(source, importance, block) for every block; source and importance, which may be null, are [256] then.
//
// source: [n_rows, n]; importance: [n], or null; out: [n_rows, n / 256] blocks.
// PRECOND: n % 256 == 0
template <typename Block, typename Quantize>
void each_block(const float * source, void * out, int64_t n_rows, int64_t n, const float * importance,
                const Quantize & quantize) {
    constexpr int64_t block_size = 256;
    auto * block = static_cast<Block *>(out);
    for (int64_t row = 0; row < n_rows; ++row) {
        for (int64_t at = 0; at < n; at += block_size, source += block_size, ++block) {
            quantize(source, importance == nullptr ? nullptr : importance + at, *block);
        }
    }
}

}  // namespace orin
