// What a gate's activation makes of a product.
#pragma once

#include <cuda_runtime.h>

#include "matrix.h"

namespace orin::cuda {

// As ggml's functions of these names.
__device__ __forceinline__ float apply_gate(Gate gate, float x) {
    switch (gate) {
        case Gate::none:
            return x;
        case Gate::silu:
            return x / (1.0f + expf(-x));
        case Gate::gelu:
            return 0.5f * x * (1.0f + tanhf(0.79788456080286535588f * x * (1.0f + 0.044715f * x * x)));
        case Gate::gelu_erf:
            return 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f));
        case Gate::gelu_quick:
            return x / (1.0f + expf(-1.702f * x));
        case Gate::relu:
            return fmaxf(x, 0.0f);
    }
    return x;
}

}  // namespace orin::cuda
