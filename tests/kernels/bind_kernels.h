// One function for each file of bindings; module.cpp calls them.
#pragma once

#include <pybind11/pybind11.h>

namespace orin::kernels {

void bind_attention(pybind11::module_ & module);
void bind_matrix_product(pybind11::module_ & module);
void bind_memory_range(pybind11::module_ & module);
void bind_feed(pybind11::module_ & module);
void bind_matrix_vector(pybind11::module_ & module);
void bind_prepare_rows(pybind11::module_ & module);
void bind_rope_store(pybind11::module_ & module);
void bind_sampling(pybind11::module_ & module);
void bind_time_attention(pybind11::module_ & module);
void bind_time_matrix(pybind11::module_ & module);
void bind_time_rows(pybind11::module_ & module);

}  // namespace orin::kernels
