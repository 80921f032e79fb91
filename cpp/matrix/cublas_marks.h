// Products that stay llama.cpp's, made by cuBLAS where that is faster than llama.cpp's kernel for quantized weights.
#pragma once

#include <cstdint>

struct ggml_cgraph;

namespace orin {

// Marks products of at least so many tokens (0: none) for orin_takes_cublas(), and returns how many. After other hooks
// have taken theirs out of the graph. Left alone: weights that are not quantized, or too large to be decoded at once;
// what asks for a precision or says something of its weights; and activations that f16 may not hold. Those of a norm
// are bounded, and so are results of attention, whose V is kept in f16; results of gates are not.
int32_t mark_cublas(ggml_cgraph & graph, int32_t least_tokens);

}  // namespace orin
