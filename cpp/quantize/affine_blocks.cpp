// Q4_K and Q5_K: 256 weights in 8 blocks, each with a scale and an offset of 6 bits.
#include <algorithm>
#include <array>

#include "affine_fit.h"
#include "each_block.h"
#include "fast_blocks.h"
#include "ggml.h"

#define GGML_COMMON_DECL_C
#include "ggml-common.h"

namespace orin {
namespace {

using namespace lanes;

constexpr int n_blocks = 8;
constexpr int block_size = 32;
constexpr int most_scale = 63;
static_assert(n_blocks * block_size == QK_K && n_blocks == n_lanes);

using Levels = std::array<uint8_t, QK_K>;
using Sixes = std::array<uint8_t, n_blocks>;  // 6 bits each

// The scales and offsets of the blocks, as multiples of two numbers.
struct Steps {
    float scale;
    float offset;
    Sixes scales;
    Sixes offsets;
};

float largest(Floats values) {
    float result = 0;
    for (int lane = 0; lane < n_lanes; ++lane) {
        result = values[lane] > result ? values[lane] : result;
    }
    return result;
}

Steps even_steps(const AffineFit & fit) {
    const auto steps = [](Floats values, float & step) {
        const float most = largest(values);
        const float inverse = most > 0 ? most_scale / most : 0.0f;
        Sixes result;
        for (int lane = 0; lane < n_lanes; ++lane) {
            const auto level = static_cast<uint8_t>(nearest(inverse * values[lane]));
            result[lane] = std::min<uint8_t>(most_scale, level);
        }
        step = most / most_scale;
        return result;
    };
    Steps result;
    result.scales = steps(fit.scale, result.scale);
    result.offsets = steps(fit.minus_offset, result.offset);
    return result;
}

// The levels and the step with the least weighted squared error that ggml's search finds: several steps are tried, then
// single levels are moved.
float weighted_steps(Floats values, Floats weights, Sixes & levels) {
    constexpr int most = most_scale;
    const float top = largest(values);
    levels = {};
    if (top < 1e-15f) {
        return 0.0f;
    }
    const auto error_of = [&](float step, const auto & level_of) {
        float error = 0;
        for (int i = 0; i < n_lanes; ++i) {
            const float off = values[i] - step * static_cast<float>(level_of(i));
            error += weights[i] * off * off;
        }
        return error;
    };
    float inverse = most / top;
    float least = error_of(1 / inverse, [&](int i) { return static_cast<uint8_t>(nearest(inverse * values[i])); });
    for (int k = -4; k <= 4; ++k) {
        if (k == 0) {
            continue;
        }
        const float tried = (0.1f * static_cast<float>(k) + most) / top;
        const float error = error_of(1 / tried, [&](int i) { return std::min(most, nearest(tried * values[i])); });
        if (error < least) {
            least = error;
            inverse = tried;
        }
    }
    float sum_xl = 0;
    float sum_ll = 0;
    for (int i = 0; i < n_lanes; ++i) {
        const int level = std::min(most, nearest(inverse * values[i]));
        levels[i] = static_cast<uint8_t>(level);
        sum_xl += weights[i] * values[i] * static_cast<float>(level);
        sum_ll += weights[i] * static_cast<float>(level) * static_cast<float>(level);
    }
    for (int round = 0; round < 5; ++round) {
        bool has_moved = false;
        for (int i = 0; i < n_lanes; ++i) {
            const auto old = static_cast<float>(levels[i]);
            float others_xl = sum_xl - weights[i] * values[i] * old;
            float others_ll = sum_ll - weights[i] * old * old;
            if (!(others_xl > 0 && others_ll > 0)) {
                continue;
            }
            const int level = std::min(most, nearest(values[i] * others_ll / others_xl));
            if (level == levels[i]) {
                continue;
            }
            others_xl += weights[i] * values[i] * static_cast<float>(level);
            others_ll += weights[i] * static_cast<float>(level) * static_cast<float>(level);
            if (others_xl * others_xl * sum_ll > sum_xl * sum_xl * others_ll) {
                levels[i] = static_cast<uint8_t>(level);
                sum_xl = others_xl;
                sum_ll = others_ll;
                has_moved = true;
            }
        }
        if (!has_moved) {
            break;
        }
    }
    return sum_ll > 0 ? sum_xl / sum_ll : 0.0f;
}

// Blocks 4 … 7 have their upper two bits in what the first four leave.
void pack_sixes(const Sixes & scales, const Sixes & offsets, uint8_t * packed) {
    for (int j = 0; j < 4; ++j) {
        packed[j] = static_cast<uint8_t>(scales[j] | scales[j + 4] >> 4 << 6);
        packed[j + 4] = static_cast<uint8_t>(offsets[j] | offsets[j + 4] >> 4 << 6);
        packed[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) | (offsets[j + 4] & 15) << 4);
    }
}

void unpack_sixes(const uint8_t * packed, Floats & scales, Floats & offsets) {
    for (int j = 0; j < 4; ++j) {
        scales[j] = static_cast<float>(packed[j] & 63);
        offsets[j] = static_cast<float>(packed[j + 4] & 63);
        scales[j + 4] = static_cast<float>((packed[j + 8] & 15) | packed[j] >> 6 << 4);
        offsets[j + 4] = static_cast<float>(packed[j + 8] >> 4 | packed[j + 4] >> 6 << 4);
    }
}

void pack_levels(const Levels & levels, block_q4_K & block) {
    for (int j = 0; j < QK_K / 64; ++j) {
        for (int i = 0; i < 32; ++i) {
            block.qs[32 * j + i] = static_cast<uint8_t>(levels[64 * j + i] | levels[64 * j + 32 + i] << 4);
        }
    }
}

void pack_levels(const Levels & levels, block_q5_K & block) {
    std::fill(std::begin(block.qh), std::end(block.qh), uint8_t{0});
    for (int j = 0; j < QK_K / 64; ++j) {
        for (int i = 0; i < 32; ++i) {
            const int first = levels[64 * j + i];
            const int second = levels[64 * j + 32 + i];
            block.qs[32 * j + i] = static_cast<uint8_t>((first & 15) | (second & 15) << 4);
            block.qh[i] = static_cast<uint8_t>(block.qh[i] | first >> 4 << 2 * j | second >> 4 << (2 * j + 1));
        }
    }
}

template <int most, typename Block>
void finish(const Floats * x, const AffineFit & fit, const Steps & steps, Block & block) {
    pack_sixes(steps.scales, steps.offsets, block.scales);
    block.d = ggml_fp32_to_fp16(steps.scale);
    block.dmin = ggml_fp32_to_fp16(steps.offset);

    Floats scales;
    Floats offsets;
    unpack_sixes(block.scales, scales, offsets);
    const Floats step = all(ggml_fp16_to_fp32(block.d)) * scales;
    const Floats offset = all(ggml_fp16_to_fp32(block.dmin)) * offsets;
    const Ints is_zero = step == 0;
    Levels levels;
    for (int i = 0; i < block_size; ++i) {
        const Floats fitted = clamped(nearest(fit.level_scale * (x[i] - fit.level_base)), 0, most);
        Floats level = clamped(nearest((x[i] + offset) / step), 0, most);
        level = select(is_zero, select(fit.is_flat, Floats{}, fitted), level);
        for (int lane = 0; lane < n_lanes; ++lane) {
            levels[block_size * lane + i] = static_cast<uint8_t>(level[lane]);
        }
    }
    pack_levels(levels, block);
}

template <int most, typename Block>
void quantize_plain(const float * source, Block & block, ScaleSteps tried) {
    Floats x[block_size];
    transpose<block_size>(source, x);
    Floats sum_xx{};
    for (const Floats & value : x) {
        sum_xx += value * value;
    }
    const Floats mean = root(sum_xx / all(block_size));
    Floats weights[block_size];
    for (int i = 0; i < block_size; ++i) {
        weights[i] = mean + absolute(x[i]);
    }
    const AffineFit fit = fit_affine<most>(x, weights, tried);
    finish<most>(x, fit, even_steps(fit), block);
}

template <int most, typename Block>
void quantize_weighted(const float * source, const float * importance, Block & block) {
    Floats x[block_size];
    Floats weights[block_size];
    transpose<block_size>(source, x);
    transpose<block_size>(importance, weights);
    float sum_xx = 0;
    for (int i = 0; i < QK_K; ++i) {
        sum_xx += source[i] * source[i];
    }
    const Floats variance = all(2 * sum_xx / QK_K);
    Floats sums{};
    for (int i = 0; i < block_size; ++i) {
        weights[i] *= root(variance + x[i] * x[i]);
        sums += weights[i];
    }
    const AffineFit fit = fit_affine<most>(x, weights, {-0.9f, 0.05f, 36});
    Steps steps;
    steps.scale = weighted_steps(fit.scale, sums, steps.scales);
    steps.offset = weighted_steps(fit.minus_offset, sums, steps.offsets);
    if (most == 31) {
        const auto cut = [](uint8_t level) { return std::min<uint8_t>(most_scale, level); };
        std::transform(steps.scales.begin(), steps.scales.end(), steps.scales.begin(), cut);
        std::transform(steps.offsets.begin(), steps.offsets.end(), steps.offsets.begin(), cut);
    }
    finish<most>(x, fit, steps, block);
}

template <int most, typename Block>
void quantize_rows(const float * source, void * out, int64_t n_rows, int64_t n, const float * importance,
                   ScaleSteps tried) {
    each_block<Block>(source, out, n_rows, n, importance, [&](const float * x, const float * weights, Block & block) {
        if (weights == nullptr) {
            quantize_plain<most>(x, block, tried);
        } else {
            quantize_weighted<most>(x, weights, block);
        }
    });
}

}  // namespace

void quantize_q4_k(const float * source, void * out, int64_t n_rows, int64_t n, const float * importance) {
    quantize_rows<15, block_q4_K>(source, out, n_rows, n, importance, {-1.0f, 0.1f, 20});
}

void quantize_q5_k(const float * source, void * out, int64_t n_rows, int64_t n, const float * importance) {
    quantize_rows<31, block_q5_K>(source, out, n_rows, n, importance, {-0.5f, 0.1f, 15});
}

}  // namespace orin
