#include "matrix_product.h"

#include <stdexcept>

#include "bind_kernels.h"
#include "matrix_arrays.h"

namespace py = pybind11;

namespace orin::kernels {
namespace {

// As MatrixArrays says, without rows_per_warp. Returns [out of each matrix that is written, or the bytes of out_rows].
py::list matrix_product(const py::dict & arguments) {
    MatrixArrays arrays(arguments);
    cuda::MatrixParams & p = arrays.params();
    DeviceArray<float>::Array workspace(py::ssize_t(cuda::matrix_product_workspace_bytes(p) / sizeof(float)));
    std::fill_n(workspace.mutable_data(), workspace.size(), std::numeric_limits<float>::quiet_NaN());
    DeviceArray<int32_t>::Array zeros(py::ssize_t(cuda::matrix_product_counter_bytes(p) / sizeof(int32_t)));
    std::fill_n(zeros.mutable_data(), zeros.size(), 0);
    DeviceArray<float> parts(workspace);
    DeviceArray<int32_t> counters(zeros);
    p.workspace = parts.data();
    p.counters = counters.data();
    check(cuda::matrix_product(p, nullptr), "matrix_product");
    const auto left = counters.read();
    if (std::any_of(left.data(), left.data() + left.size(), [](int32_t count) { return count != 0; })) {
        throw std::runtime_error("matrix_product: a counter is not zero after the launch");
    }
    return arrays.read();
}

bool can_matrix_product(const py::dict & arguments) {
    return cuda::can_matrix_product(MatrixArrays(arguments).params());
}

int32_t matrix_product_splits(const py::dict & arguments, int32_t n_multiprocessors) {
    return cuda::matrix_product_splits(MatrixArrays(arguments).params(), n_multiprocessors);
}

}  // namespace

void bind_matrix_product(py::module_ & module) {
    module.def("matrix_product", &matrix_product, py::arg("arguments"));
    module.def("can_matrix_product", &can_matrix_product, py::arg("arguments"));
    module.def("matrix_product_splits", &matrix_product_splits, py::arg("arguments"), py::arg("n_multiprocessors"));
}

}  // namespace orin::kernels
