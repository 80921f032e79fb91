// Times of activations that are normalised and put into rows.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

#include "bind_kernels.h"
#include "device_array.h"
#include "prepare_rows.h"
#include "timing.h"

namespace py = pybind11;

namespace orin::kernels {
namespace {

constexpr size_t n_launches = 32;

// RMSNorm and its weight, to rows of a format. What is read was just written in a step, and lies in the cache here,
// too.
std::vector<double> time_prepare_rows(int32_t n_values, int32_t n_tokens, int format, int repetitions) {
    const auto row_format = static_cast<cuda::RowFormat>(format);
    const size_t n_floats = size_t(n_values) * size_t(n_tokens);
    const std::vector<float> ones(n_floats, 1.0f);
    Memory x(n_floats * sizeof(float));
    Memory weight(size_t(n_values) * sizeof(float));
    x.fill(ones.data(), n_floats * sizeof(float));
    weight.fill(ones.data(), size_t(n_values) * sizeof(float));
    const Memory rows(cuda::activation_row_bytes(row_format, n_values) * size_t(n_tokens));
    cuda::PrepareRowsParams p{};
    p.n_tokens = n_tokens;
    p.n_values = n_values;
    p.x = x.at<float>();
    p.x_stride = n_values;
    p.weight = weight.at<float>();
    p.eps = 1e-5f;
    p.rows = {row_format, n_values, rows.at<void>()};
    const Launch launch = [p](cudaStream_t stream) { return cuda::prepare_rows(p, stream); };
    return time_launches(std::vector<Launch>(n_launches, launch), repetitions);
}

}  // namespace

void bind_time_rows(py::module_ & module) {
    module.def("time_prepare_rows", &time_prepare_rows, py::kw_only(), py::arg("n_values"), py::arg("n_tokens"),
               py::arg("format"), py::arg("repetitions"));
}

}  // namespace orin::kernels
