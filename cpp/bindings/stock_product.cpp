#include "stock_product.h"

#include <pybind11/numpy.h>

#include <stdexcept>
#include <string>

#include "../engine/gpu.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"

namespace py = pybind11;

namespace orin {

namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Bytes = py::array_t<uint8_t, py::array::c_style>;

ggml_type type_named(const std::string & name) {
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        const char * known = ggml_type_name(ggml_type(type));
        if (known != nullptr && name == known) {
            return ggml_type(type);
        }
    }
    throw std::invalid_argument("no type of weights '" + name + "'");
}

ggml_backend_ptr make_backend(bool gpu) {
    if (!gpu) {
        return ggml_backend_ptr(ggml_backend_cpu_init());
    }
    ggml_backend_dev_t device = first_gpu();
    if (device == nullptr) {
        throw std::runtime_error("expected a GPU, but this build or this machine has none");
    }
    return ggml_backend_ptr(ggml_backend_dev_init(device, nullptr));
}

// rows: [n_rows, bytes of a row]; x: [n_tokens, n_values]. Returns [n_tokens, n_rows].
Floats stock_product(const std::string & type_name, const Bytes & rows, const Floats & x, bool gpu) {
    const ggml_type type = type_named(type_name);
    if (rows.ndim() != 2 || x.ndim() != 2 || x.shape(1) % ggml_blck_size(type) != 0 ||
        size_t(rows.shape(1)) != ggml_row_size(type, x.shape(1))) {
        throw py::value_error("expected rows of " + type_name + " as long as those of x");
    }
    const ggml_backend_ptr backend = make_backend(gpu);
    const auto make_context = [](size_t n_tensors) {
        const size_t bytes = n_tensors * ggml_tensor_overhead() + ggml_graph_overhead();
        return ggml_context_ptr(ggml_init({bytes, /*mem_buffer=*/nullptr, /*no_alloc=*/true}));
    };
    const ggml_context_ptr leaves = make_context(1);
    ggml_tensor * weights = ggml_new_tensor_2d(leaves.get(), type, x.shape(1), rows.shape(0));
    const ggml_backend_buffer_ptr weight_buffer(ggml_backend_alloc_ctx_tensors(leaves.get(), backend.get()));
    ggml_backend_buffer_set_usage(weight_buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_tensor_set(weights, rows.data(), 0, size_t(rows.nbytes()));

    const ggml_context_ptr nodes = make_context(2);
    ggml_tensor * input = ggml_new_tensor_2d(nodes.get(), GGML_TYPE_F32, x.shape(1), x.shape(0));
    ggml_tensor * product = ggml_mul_mat(nodes.get(), weights, input);
    ggml_cgraph * graph = ggml_new_graph(nodes.get());
    ggml_build_forward_expand(graph, product);
    const ggml_backend_buffer_ptr buffer(ggml_backend_alloc_ctx_tensors(nodes.get(), backend.get()));
    ggml_backend_tensor_set(input, x.data(), 0, size_t(x.nbytes()));
    if (ggml_backend_graph_compute(backend.get(), graph) != GGML_STATUS_SUCCESS) {
        throw std::runtime_error("the graph did not run");
    }
    Floats result({x.shape(0), rows.shape(0)});
    ggml_backend_tensor_get(product, result.mutable_data(), 0, size_t(result.nbytes()));
    return result;
}

// x: [n_rows, n_values]. Returns [n_rows, bytes of a row].
Bytes quantize(const std::string & type_name, const Floats & x) {
    const ggml_type type = type_named(type_name);
    if (x.ndim() != 2 || x.shape(1) % ggml_blck_size(type) != 0 || ggml_quantize_requires_imatrix(type)) {
        throw py::value_error("expected rows of whole blocks, and a type that needs no importance matrix");
    }
    Bytes result({x.shape(0), py::ssize_t(ggml_row_size(type, x.shape(1)))});
    void * out = result.mutable_data();
    const py::gil_scoped_release release;
    ggml_quantize_chunk(type, x.data(), out, 0, x.shape(0), x.shape(1), /*imatrix=*/nullptr);
    return result;
}

}  // namespace

void bind_stock_product(py::module_ & m) {
    m.def("stock_product", &stock_product, py::arg("type"), py::arg("rows"), py::arg("x"), py::kw_only(),
          py::arg("gpu"));
    m.def("quantize", &quantize, py::arg("type"), py::arg("x"));
}

}  // namespace orin
