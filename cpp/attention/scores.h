// What becomes of q·K before it is weighed.
#pragma once

#include "exponential.h"
#include "paged_attention.h"

namespace orin::attention {

// Scales n products, and caps them where the model says so. scores: [n], up to whole vectors.
inline void finish_scores(const PagedAttention & a, int n, float * scores) {
    for (int i = 0; i < n; i += lanes) {
        const Floats scaled = load(scores + i) * a.scale;
        store(scores + i, a.softcap == 0.0f ? scaled : tanh(scaled / a.softcap) * a.softcap);
    }
}

}  // namespace orin::attention
