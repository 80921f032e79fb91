// Quantizers of rows, ours and those of ggml that they replace.
#pragma once

#include <pybind11/pybind11.h>

namespace orin {

// Adds quantize_rows() to _native.testing.
void bind_quantize_probe(pybind11::module_ & m);

}  // namespace orin
