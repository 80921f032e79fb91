// IQ4_NL and IQ4_XS: blocks of 32 weights as entries of a table of 16 values, times a scale.
#include <algorithm>

#include "each_block.h"
#include "fast_blocks.h"
#include "ggml.h"
#include "lanes.h"

#define GGML_COMMON_DECL_C
#include "ggml-common.h"

namespace orin {
namespace {

using namespace lanes;

constexpr int block_size = 32;
constexpr int n_tries = 7;         // to either side
constexpr float nothing = 1e-15f;  // what is smaller counts as 0
constexpr int n_values = 16;
// The format's table, in ascending order: nearer values where weights are more frequent.
constexpr int values[n_values] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// The nearest entry of the table, and its number; of two as near the upper one, and the last of what is not a number.
// (The middle between entries and the distances beside it are exact in float, so this is the comparison of distances.)
struct Entry {
    Ints value;
    Ints number;
};

Entry nearest_entry(Floats x) {
    Entry entry{Ints{} + values[0], Ints{}};
    for (int i = 1; i < n_values; ++i) {
        const Ints is_above = ~(x < 0.5f * static_cast<float>(values[i - 1] + values[i]));
        entry.value += is_above & (values[i] - values[i - 1]);
        entry.number -= is_above;
    }
    return entry;
}

Floats nearest_value(Floats x) {
    return __builtin_convertvector(nearest_entry(x).value, Floats);
}

// The least squares scale with the least error of those that ggml tries; 0 for a lane without weights.
//
// x, weights: [32] of lanes.
Floats fit_scale(const Floats * x, const Floats * weights) {
    const Floats extreme = extreme_of<block_size>(x);
    Floats sum_xv;
    Floats sum_vv;
    const auto sum_up = [&](Floats inverse) {
        sum_xv = Floats{};
        sum_vv = Floats{};
        for (int i = 0; i < block_size; ++i) {
            const Floats value = nearest_value(inverse * x[i]);
            const Floats weighted = weights[i] * value;
            sum_xv += weighted * x[i];
            sum_vv += weighted * value;
        }
    };
    sum_up(all(1) / (-extreme / all(values[0])));
    Floats scale = select(sum_vv > 0, sum_xv / sum_vv, Floats{});
    Floats best = scale * sum_xv;
    for (int k = -n_tries; k <= n_tries; ++k) {
        sum_up(all(static_cast<float>(k + values[0])) / extreme);
        const Ints is_better = (sum_vv > 0) & (sum_xv * sum_xv > best * sum_vv);
        scale = select(is_better, sum_xv / sum_vv, scale);
        best = select(is_better, scale * sum_xv, best);
    }
    return select(absolute(extreme) < nothing, Floats{}, scale);
}

// importance: [256] of 8 blocks, or null; variance: of each.
void weigh(const Floats * x, const float * importance, Floats variance, Floats * weights) {
    if (importance != nullptr) {
        transpose<block_size>(importance, weights);
    }
    for (int i = 0; i < block_size; ++i) {
        const Floats square = x[i] * x[i];
        weights[i] = importance == nullptr ? square : weights[i] * root(variance + square);
    }
}

// The entries of 8 blocks: [8][16] bytes, the first half of a block in the lower bits.
void pack_entries(const Floats * x, Floats inverse, uint8_t (*packed)[block_size / 2]) {
    for (int i = 0; i < block_size / 2; ++i) {
        const Ints low = nearest_entry(inverse * x[i]).number;
        const Ints high = nearest_entry(inverse * x[i + block_size / 2]).number;
        for (int lane = 0; lane < n_lanes; ++lane) {
            packed[lane][i] = static_cast<uint8_t>(low[lane] | high[lane] << 4);
        }
    }
}

Floats inverse_or_zero(Floats value) {
    return select(value != 0, all(1) / value, Floats{});
}

// n_blocks: at most 8; source, importance: [32 * n_blocks].
void quantize_nl(const float * source, const float * importance, int n_blocks, block_iq4_nl * blocks) {
    float filled[2][QK_K] = {};  // lanes of zeros behind the last block
    std::copy_n(source, n_blocks * block_size, filled[0]);
    if (importance != nullptr) {
        std::copy_n(importance, n_blocks * block_size, filled[1]);
        importance = filled[1];
    }
    Floats x[block_size];
    transpose<block_size>(filled[0], x);
    Floats sum_xx{};
    for (const Floats & value : x) {
        sum_xx += value * value;
    }
    Floats weights[block_size];
    weigh(x, importance, sum_xx * all(2.0f / block_size), weights);
    const Floats scale = fit_scale(x, weights);
    uint8_t packed[n_lanes][block_size / 2];
    pack_entries(x, inverse_or_zero(scale), packed);
    for (int lane = 0; lane < n_blocks; ++lane) {
        blocks[lane].d = ggml_fp32_to_fp16(scale[lane]);
        std::copy_n(packed[lane], block_size / 2, blocks[lane].qs);
    }
}

void quantize_xs(const float * source, const float * importance, block_iq4_xs & block) {
    float sum_xx = 0;
    for (int i = 0; i < QK_K; ++i) {
        sum_xx += source[i] * source[i];
    }
    Floats x[block_size];
    Floats weights[block_size];
    transpose<block_size>(source, x);
    weigh(x, importance, all(sum_xx * (2.0f / QK_K)), weights);
    const Floats scale = fit_scale(x, weights);
    float largest_scale = 0;
    for (int lane = 0; lane < n_lanes; ++lane) {
        largest_scale = std::fabs(scale[lane]) > std::fabs(largest_scale) ? scale[lane] : largest_scale;
    }
    const float step = -largest_scale / 32;
    const float inverse = step != 0 ? 1 / step : 0.0f;
    const Floats level = clamped(nearest(inverse * scale), -32, 31);
    block.d = ggml_fp32_to_fp16(step);
    block.scales_h = 0;
    std::fill_n(block.scales_l, QK_K / 64, uint8_t{0});
    for (int lane = 0; lane < n_lanes; ++lane) {
        const int bits = static_cast<int>(level[lane]) + 32;
        block.scales_l[lane / 2] = static_cast<uint8_t>(block.scales_l[lane / 2] | (bits & 15) << 4 * (lane % 2));
        block.scales_h = static_cast<uint16_t>(block.scales_h | bits >> 4 << 2 * lane);
    }
    pack_entries(x, inverse_or_zero(step * level), reinterpret_cast<uint8_t (*)[block_size / 2]>(block.qs));
}

}  // namespace

void quantize_iq4_nl(const float * source, void * out, int64_t n_rows, int64_t n, const float * importance) {
    auto * blocks = static_cast<block_iq4_nl *>(out);
    for (int64_t row = 0; row < n_rows; ++row) {
        for (int64_t at = 0; at < n; at += QK_K) {
            const int n_blocks = static_cast<int>(std::min<int64_t>(n - at, QK_K)) / block_size;
            quantize_nl(source, importance == nullptr ? nullptr : importance + at, n_blocks, blocks);
            source += n_blocks * block_size;
            blocks += n_blocks;
        }
    }
}

void quantize_iq4_xs(const float * source, void * out, int64_t n_rows, int64_t n, const float * importance) {
    each_block<block_iq4_xs>(source, out, n_rows, n, importance, quantize_xs);
}

}  // namespace orin
