// Blocks of 32 weights as levels 0 … n_levels - 1 of a scale and an offset: what Q4_K and Q5_K store.
#pragma once

#include "lanes.h"

namespace orin {

// Which scales are tried: (first + step * k + most level) / (largest - smallest weight) for k = 0 … last are their
// inverses.
struct ScaleSteps {
    float first;
    float step;
    int last;
};

// One block a lane.
struct AffineFit {
    lanes::Floats scale;
    lanes::Floats minus_offset;  // not below 0
    // The levels that the scale and offset were fitted to are those of (weight - level_base) * level_scale.
    lanes::Floats level_scale;
    lanes::Floats level_base;
    lanes::Ints is_flat;  // all weights are the same, and not above 0: all levels are 0
};

// The tried levels' least squares fit with the least error, as ggml finds it, bit for bit.
//
// x, weights: [32] of lanes.
template <int most>
AffineFit fit_affine(const lanes::Floats * x, const lanes::Floats * weights, ScaleSteps steps);

extern template AffineFit fit_affine<15>(const lanes::Floats *, const lanes::Floats *, ScaleSteps);
extern template AffineFit fit_affine<31>(const lanes::Floats *, const lanes::Floats *, ScaleSteps);

}  // namespace orin
