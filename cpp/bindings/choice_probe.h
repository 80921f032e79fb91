// Choices of kernels, and products that are left to cuBLAS, for tests.
#pragma once

#include <pybind11/pybind11.h>

namespace orin {

// Adds functions to _native.testing.
void bind_choice_probe(pybind11::module_ & m);

}  // namespace orin
