#include "choice_probe.h"

#include <pybind11/stl.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "../hooks/include/orin_hooks.h"
#include "../matrix/choices.h"
#include "../matrix/cublas_marks.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-impl.h"

namespace py = pybind11;

namespace orin {
namespace {

using Chosen = std::map<std::string, int32_t>;

const char * form_name(MatrixForm form) {
    switch (form) {
        case MatrixForm::vector:
            return "vector";
        case MatrixForm::product:
            return "product";
        case MatrixForm::stock:
            return "stock";
    }
    return "";
}

constexpr int64_t n_values = 256;

// What a product reads, by name.
ggml_tensor * input_named(const std::string & name, ggml_context * context, ggml_tensor * x, ggml_tensor * weight) {
    ggml_tensor * norm = ggml_rms_norm(context, x, 1e-5f);
    if (name == "norm") {
        return norm;
    }
    if (name == "weighted norm") {
        return ggml_mul(context, norm, weight);
    }
    if (name == "norm with bias") {
        return ggml_add(context, ggml_mul(context, ggml_norm(context, x, 1e-5f), weight), weight);
    }
    if (name == "rows of a norm") {
        return ggml_reshape_2d(context, ggml_cont(context, norm), x->ne[0], x->ne[1]);
    }
    if (name == "norm plus activations") {
        return ggml_add(context, norm, x);
    }
    if (name == "gate") {
        return ggml_swiglu_split(context, norm, x);
    }
    if (name == "activations") {
        return x;
    }
    throw std::invalid_argument("no input is called " + name);
}

// Whether a product is marked, in a graph of its own.
bool is_marked(const std::string & input, int type, int64_t n_rows, int64_t n_tokens, int32_t least, bool is_weight,
               bool wants_f32) {
    const ggml_init_params params = {16 * ggml_tensor_overhead(), nullptr, true};
    const ggml_context_ptr leafs(ggml_init(params));
    const ggml_init_params node_params = {16 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true};
    const ggml_context_ptr nodes(ggml_init(node_params));
    ggml_tensor * weights = ggml_new_tensor_2d(leafs.get(), static_cast<ggml_type>(type), n_values, n_rows);
    ggml_tensor * norm_weight = ggml_new_tensor_1d(leafs.get(), GGML_TYPE_F32, n_values);
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_alloc_ctx_tensors_from_buft(leafs.get(), ggml_backend_cpu_buffer_type()));
    ggml_backend_buffer_set_usage(buffer.get(),
                                  is_weight ? GGML_BACKEND_BUFFER_USAGE_WEIGHTS : GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    ggml_tensor * x = ggml_new_tensor_2d(nodes.get(), GGML_TYPE_F32, n_values, n_tokens);
    ggml_tensor * product = ggml_mul_mat(nodes.get(), weights, input_named(input, nodes.get(), x, norm_weight));
    if (wants_f32) {
        ggml_prec_set_acc(product, GGML_PREC_F32);
    }
    ggml_cgraph * graph = ggml_new_graph(nodes.get());
    ggml_build_forward_expand(graph, product);
    const int32_t n = mark_cublas(*graph, least);
    if (n != orin_takes_cublas(product->op_params)) {
        throw std::logic_error("the number of products is not that of marks");
    }
    return n == 1;
}

}  // namespace

void bind_choice_probe(py::module_ & m) {
    m.def(
        "default_choices",
        [](int32_t compute_capability, int32_t n_multiprocessors, const Chosen & chosen) {
            return to_map(with_choices(default_choices(compute_capability, n_multiprocessors), chosen));
        },
        py::arg("compute_capability"), py::arg("n_multiprocessors"), py::arg("chosen") = Chosen());
    m.def(
        "matrix_form",
        [](const Chosen & chosen, int32_t n_tokens, const std::vector<int32_t> & types) {
            std::vector<cuda::WeightType> of;
            for (const int32_t type : types) {
                of.push_back(static_cast<cuda::WeightType>(type));
            }
            return form_name(matrix_form(with_choices(MatrixChoices(), chosen), n_tokens, of));
        },
        py::arg("chosen"), py::arg("n_tokens"), py::arg("types"));
    m.def("is_left_to_cublas", &is_marked, py::arg("input"), py::kw_only(), py::arg("type"), py::arg("n_rows") = 32,
          py::arg("n_tokens") = 64, py::arg("least") = 64, py::arg("is_weight") = true, py::arg("wants_f32") = false);
}

}  // namespace orin
