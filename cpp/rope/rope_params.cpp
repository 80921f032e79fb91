#include "rope_params.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace orin {

namespace {

// 1 before the ramp (keep the angle: extrapolate), 0 after it (scale the angle: interpolate).
float yarn_ramp(const std::array<float, 2> & corr_dims, int32_t pair) {
    const float width = std::max(0.001f, corr_dims[1] - corr_dims[0]);
    return 1.0f - std::clamp((float(pair) - corr_dims[0]) / width, 0.0f, 1.0f);
}

uint8_t axis_of_sector(int32_t sector, RopeAxes axes, const std::array<int32_t, 4> & sections) {
    if (axes == RopeAxes::interleaved) {
        const uint8_t axis = uint8_t(sector % 3);
        return sector < 3 * sections[axis] ? axis : 3;
    }
    uint8_t axis = 0;
    for (int32_t end = sections[0]; axis < 3 && sector >= end; end += sections[axis]) {
        axis++;
    }
    return axis;
}

}  // namespace

bool RopeParams::operator==(const RopeParams & other) const {
    const auto key = [](const RopeParams & p) {
        return std::tie(p.n_dims, p.freq_base, p.freq_scale, p.ext_factor, p.attn_factor, p.corr_dims, p.axes,
                        p.sections, p.freq_factors);
    };
    return key(*this) == key(other);
}

void RopeParams::write_row(int32_t position, float * row) const {
    const bool yarn = ext_factor != 0.0f;
    const float step = std::pow(freq_base, -2.0f / float(n_dims));
    const float magnitude = yarn ? attn_factor * (1.0f + 0.1f * std::log(1.0f / freq_scale)) : attn_factor;
    float unscaled = float(position);
    for (int32_t pair = 0; pair < n_dims / 2; pair++, unscaled *= step) {
        const float extrapolate = unscaled / (freq_factors.empty() ? 1.0f : freq_factors[size_t(pair)]);
        const float interpolate = freq_scale * extrapolate;
        float angle = interpolate;
        if (yarn) {
            const float keep = yarn_ramp(corr_dims, pair) * ext_factor;
            angle = interpolate * (1.0f - keep) + extrapolate * keep;
        }
        row[2 * pair] = std::cos(angle) * magnitude;
        row[2 * pair + 1] = std::sin(angle) * magnitude;
    }
}

std::vector<uint8_t> RopeParams::pair_axes() const {
    if (axes == RopeAxes::single) {
        return {};
    }
    const int32_t n_sectors = sections[0] + sections[1] + sections[2] + sections[3];
    std::vector<uint8_t> axis(size_t(n_dims) / 2);
    for (size_t pair = 0; pair < axis.size(); pair++) {
        axis[pair] = axis_of_sector(int32_t(pair) % n_sectors, axes, sections);
    }
    return axis;
}

bool RopeParams::tabulable() const {
    if (n_dims <= 0 || n_dims % 2 != 0 || (!freq_factors.empty() && freq_factors.size() != size_t(n_dims) / 2)) {
        return false;
    }
    if (axes != RopeAxes::single) {
        const int64_t spatial = int64_t(sections[0]) + sections[1] + sections[2];
        const bool negative = *std::min_element(sections.begin(), sections.end()) < 0;
        if (negative || spatial == 0 || spatial + sections[3] > n_dims) {
            return false;
        }
    }
    std::vector<float> row(static_cast<size_t>(n_dims));
    write_row(1, row.data());
    return std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); });
}

}  // namespace orin
