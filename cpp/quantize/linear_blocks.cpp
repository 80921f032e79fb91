// Q6_K: 256 weights in 16 blocks, each with a scale of 8 bits.
#include <algorithm>
#include <array>
#include <cstring>

#include "each_block.h"
#include "fast_blocks.h"
#include "ggml.h"
#include "lanes.h"

#define GGML_COMMON_DECL_C
#include "ggml-common.h"

namespace orin {
namespace {

using namespace lanes;

constexpr int block_size = 16;
constexpr int n_groups = QK_K / (block_size * n_lanes);
constexpr int top = 32;            // levels are -32 … 31
constexpr float nothing = 1e-15f;  // what is smaller counts as 0

using Levels = std::array<uint8_t, QK_K>;

// Of 8 blocks, one a lane.
struct LinearFit {
    Floats scale;
    Floats level_scale;  // the levels that the scale was fitted to are the weights' multiples of this
    Ints is_zero;
};

Floats level_of(Floats value) {
    return clamped(nearest(value), -top, top - 1);
}

// The least squares fit with the least error of those that ggml tries. x, weights: [16] of lanes.
LinearFit fit_linear(const Floats * x, const Floats * weights) {
    const Floats extreme = extreme_of<block_size>(x);
    const auto sums = [&](Floats level_scale, Floats & sum_xl, Floats & sum_ll) {
        sum_xl = Floats{};
        sum_ll = Floats{};
        for (int i = 0; i < block_size; ++i) {
            const Floats level = level_of(level_scale * x[i]);
            sum_xl += weights[i] * x[i] * level;
            sum_ll += weights[i] * level * level;
        }
    };
    LinearFit fit;
    fit.is_zero = absolute(extreme) < nothing;
    fit.level_scale = all(-top) / extreme;
    Floats sum_xl;
    Floats sum_ll;
    sums(fit.level_scale, sum_xl, sum_ll);
    fit.scale = select(sum_ll != 0, sum_xl / sum_ll, Floats{});
    Floats best = fit.scale * sum_xl;
    for (int k = -9; k <= 9; ++k) {
        if (k == 0) {
            continue;
        }
        const Floats level_scale = all(-(top + 0.1f * static_cast<float>(k))) / extreme;
        sums(level_scale, sum_xl, sum_ll);
        const Ints is_better = (sum_ll > 0) & (sum_xl * sum_xl > best * sum_ll);
        fit.scale = select(is_better, sum_xl / sum_ll, fit.scale);
        best = select(is_better, fit.scale * sum_xl, best);
        fit.level_scale = select(is_better, level_scale, fit.level_scale);
    }
    fit.scale = select(fit.is_zero, Floats{}, fit.scale);
    return fit;
}

void pack_levels(const Levels & levels, block_q6_K & block) {
    for (int half = 0; half < 2; ++half) {
        const uint8_t * from = levels.data() + 128 * half;
        for (int i = 0; i < 32; ++i) {
            block.ql[64 * half + i] = static_cast<uint8_t>((from[i] & 15) | (from[i + 64] & 15) << 4);
            block.ql[64 * half + 32 + i] = static_cast<uint8_t>((from[i + 32] & 15) | (from[i + 96] & 15) << 4);
            block.qh[32 * half + i] = static_cast<uint8_t>(from[i] >> 4 | from[i + 32] >> 4 << 2 |
                                                           from[i + 64] >> 4 << 4 | from[i + 96] >> 4 << 6);
        }
    }
}

// importance: [256], or null.
void quantize_block(const float * source, const float * importance, block_q6_K & block) {
    Floats x[n_groups][block_size];
    LinearFit fits[n_groups];
    float largest = 0;
    float largest_scale = 0;
    for (int group = 0; group < n_groups; ++group) {
        Floats weights[block_size];
        const int at = group * block_size * n_lanes;
        transpose<block_size>(source + at, x[group]);
        if (importance != nullptr) {
            transpose<block_size>(importance + at, weights);
        } else {
            for (int i = 0; i < block_size; ++i) {
                weights[i] = x[group][i] * x[group][i];
            }
        }
        fits[group] = fit_linear(x[group], weights);
        for (int lane = 0; lane < n_lanes; ++lane) {
            const float scale = fits[group].scale[lane];
            if (std::fabs(scale) > largest) {
                largest = std::fabs(scale);
                largest_scale = scale;
            }
        }
    }
    if (largest < nothing) {
        std::memset(&block, 0, sizeof(block));
        return;
    }
    const float inverse = -128.0f / largest_scale;
    block.d = ggml_fp32_to_fp16(1 / inverse);
    Levels levels;
    for (int group = 0; group < n_groups; ++group) {
        const LinearFit & fit = fits[group];
        Floats scales;
        for (int lane = 0; lane < n_lanes; ++lane) {
            const auto scale = static_cast<int8_t>(std::min(127, nearest(inverse * fit.scale[lane])));
            block.scales[group * n_lanes + lane] = scale;
            scales[lane] = static_cast<float>(scale);
        }
        const Floats step = all(ggml_fp16_to_fp32(block.d)) * scales;
        const Ints is_zero = step == 0;
        for (int i = 0; i < block_size; ++i) {
            const Floats fitted = select(fit.is_zero, all(-top), level_of(fit.level_scale * x[group][i]));
            const Floats level = select(is_zero, fitted, level_of(x[group][i] / step)) + top;
            for (int lane = 0; lane < n_lanes; ++lane) {
                levels[(group * n_lanes + lane) * block_size + i] = static_cast<uint8_t>(level[lane]);
            }
        }
    }
    pack_levels(levels, block);
}

}  // namespace

void quantize_q6_k(const float * source, void * out, int64_t n_rows, int64_t n, const float * importance) {
    each_block<block_q6_K>(source, out, n_rows, n, importance, quantize_block);
}

}  // namespace orin
