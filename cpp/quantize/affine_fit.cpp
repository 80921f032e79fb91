#include "affine_fit.h"

namespace orin {

using namespace lanes;

template <int most>
AffineFit fit_affine(const Floats * x, const Floats * weights, ScaleSteps steps) {
    constexpr int n = 32;
    Floats low = x[0];
    Floats high = x[0];
    Floats sum_w = weights[0];
    Floats sum_wx = sum_w * x[0];
    for (int i = 1; i < n; ++i) {
        low = select(x[i] < low, x[i], low);
        high = select(x[i] > high, x[i], high);
        sum_w += weights[i];
        sum_wx += weights[i] * x[i];
    }
    low = select(low > 0, Floats{}, low);

    AffineFit fit;
    fit.is_flat = high == low;
    fit.level_scale = all(most) / (high - low);
    fit.level_base = low;
    fit.scale = all(1) / fit.level_scale;
    Floats least_error{};
    for (int i = 0; i < n; ++i) {
        const Floats level = clamped(nearest(fit.level_scale * (x[i] - low)), 0, most);
        const Floats off = fit.scale * level + low - x[i];
        least_error += weights[i] * (off * off);
    }
    for (int k = 0; k <= steps.last; ++k) {
        const Floats level_scale = all(steps.first + steps.step * static_cast<float>(k) + most) / (high - low);
        Floats levels[n];
        Floats sum_l{};
        Floats sum_ll{};
        Floats sum_xl{};
        for (int i = 0; i < n; ++i) {
            levels[i] = clamped(nearest(level_scale * (x[i] - low)), 0, most);
            const Floats weighted = weights[i] * levels[i];
            sum_l += weighted;
            sum_ll += weighted * levels[i];
            sum_xl += weighted * x[i];
        }
        // Normal equations; an offset above 0 is not to be had, so then there is none.
        const Floats determinant = sum_w * sum_ll - sum_l * sum_l;
        Floats scale = (sum_w * sum_xl - sum_wx * sum_l) / determinant;
        Floats offset = (sum_ll * sum_wx - sum_l * sum_xl) / determinant;
        const Ints is_above = offset > 0;
        scale = select(is_above, sum_xl / sum_ll, scale);
        offset = select(is_above, Floats{}, offset);
        Floats error{};
        for (int i = 0; i < n; ++i) {
            const Floats off = scale * levels[i] + offset - x[i];
            error += weights[i] * (off * off);
        }
        const Ints is_better = (determinant > 0) & (error < least_error);
        least_error = select(is_better, error, least_error);
        fit.scale = select(is_better, scale, fit.scale);
        fit.level_scale = select(is_better, level_scale, fit.level_scale);
        fit.level_base = select(is_better, low, fit.level_base);
        low = select(is_better, offset, low);  // the next scale is of what is above this one
    }
    fit.scale = select(fit.is_flat, Floats{}, fit.scale);
    fit.minus_offset = -low;
    return fit;
}

template AffineFit fit_affine<15>(const Floats *, const Floats *, ScaleSteps);
template AffineFit fit_affine<31>(const Floats *, const Floats *, ScaleSteps);

}  // namespace orin
