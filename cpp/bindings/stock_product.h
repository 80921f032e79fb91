// ggml's own product of a weight matrix with activations, and its own quantization: what ours is held against.
#pragma once

#include <pybind11/pybind11.h>

namespace orin {

// Adds stock_product() and quantize() to _native.testing.
void bind_stock_product(pybind11::module_ & m);

}  // namespace orin
