#include "matrix_vector.h"

#include <pybind11/stl.h>

#include <utility>

#include "bind_kernels.h"
#include "matrix_arrays.h"

namespace py = pybind11;

namespace orin::kernels {
namespace {

// As MatrixArrays says. Returns [out of each matrix that is written, or the bytes of out_rows].
py::list matrix_vector(const py::dict & arguments) {
    MatrixArrays arrays(arguments);
    check(cuda::matrix_vector(arrays.params(), nullptr), "matrix_vector");
    return arrays.read();
}

bool can_matrix_vector(const py::dict & arguments) {
    return cuda::can_matrix_vector(MatrixArrays(arguments).params());
}

std::pair<int32_t, int32_t> matrix_vector_cut(const py::dict & arguments, int32_t n_multiprocessors) {
    const auto cut = cuda::matrix_vector_cut(MatrixArrays(arguments).params(), n_multiprocessors);
    return {cut.rows_per_warp, cut.n_splits};
}

}  // namespace

void bind_matrix_vector(py::module_ & module) {
    module.def("matrix_vector", &matrix_vector, py::arg("arguments"));
    module.def("can_matrix_vector", &can_matrix_vector, py::arg("arguments"));
    module.def("matrix_vector_cut", &matrix_vector_cut, py::arg("arguments"), py::arg("n_multiprocessors"));
}

}  // namespace orin::kernels
