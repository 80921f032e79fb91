#include "matrix_probe.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "../hooks/graph_edit.h"
#include "../matrix/matrix_edit.h"
#include "../matrix/plan_words.h"
#include "ggml-impl.h"

namespace py = pybind11;

namespace orin {
namespace {

constexpr size_t max_tensors = 512;

template <typename Value>
Value named(const std::string & name, std::initializer_list<Value> values, const char * (*name_of)(Value)) {
    const auto * found =
        std::find_if(values.begin(), values.end(), [&](Value value) { return name == name_of(value); });
    if (found == values.end()) {
        throw std::invalid_argument("nothing is called " + name);
    }
    return *found;
}

}  // namespace

MatrixProbe::MatrixProbe() {
    const size_t bytes = max_tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(max_tensors, false);
    context_.reset(ggml_init({bytes, /*mem_buffer=*/nullptr, /*no_alloc=*/true}));
    graph_ = ggml_new_graph_custom(context_.get(), max_tensors, false);
}

int MatrixProbe::add_tensor(ggml_tensor * tensor) {
    const int number = static_cast<int>(tensors_.size());
    if (tensor->name[0] == '\0') {
        ggml_format_name(tensor, "%s %d", ggml_op_name(tensor->op), number);
    }
    tensors_.push_back(tensor);
    return number;
}

int MatrixProbe::input(int64_t n_values, int64_t n_tokens) {
    ggml_tensor * tensor = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, n_values, n_tokens);
    ggml_set_input(tensor);
    ggml_set_name(tensor, "input");
    return add_tensor(tensor);
}

int MatrixProbe::weight(const std::string & name, const std::string & type, int64_t n_values, int64_t n_rows) {
    const ggml_type known =
        named(type, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K}, ggml_type_name);
    ggml_tensor * tensor = ggml_new_tensor_2d(context_.get(), known, n_values, n_rows);
    ggml_set_name(tensor, name.c_str());
    weights_.insert(tensor);
    return add_tensor(tensor);
}

int MatrixProbe::attention(int64_t head_dim, int64_t n_head, int64_t n_tokens) {
    ggml_tensor * q = at(input(head_dim * n_head, n_tokens));
    const auto compute = [](ggml_tensor *, int, int, void *) {};
    ggml_tensor * node =
        ggml_custom_4d(context_.get(), GGML_TYPE_F32, head_dim, n_head, n_tokens, 1, &q, 1, compute, 1, nullptr);
    ggml_set_name(node, "attention");
    writers_.insert(node);
    return add_tensor(node);
}

int MatrixProbe::multiply(int weight, int x) {
    return add_tensor(ggml_mul_mat(context_.get(), at(weight), at(x)));
}

int MatrixProbe::add(int a, int b) {
    return add_tensor(ggml_add(context_.get(), at(a), at(b)));
}

int MatrixProbe::scale_by(int x, int weight) {
    return add_tensor(ggml_mul(context_.get(), at(x), at(weight)));
}

int MatrixProbe::rms_norm(int x) {
    return add_tensor(ggml_rms_norm(context_.get(), at(x), 1e-6f));
}

int MatrixProbe::glu(const std::string & op, int a, int b, bool swapped) {
    const ggml_glu_op known = named(op,
                                    {GGML_GLU_OP_REGLU, GGML_GLU_OP_GEGLU, GGML_GLU_OP_SWIGLU, GGML_GLU_OP_SWIGLU_OAI,
                                     GGML_GLU_OP_GEGLU_ERF, GGML_GLU_OP_GEGLU_QUICK},
                                    ggml_glu_op_name);
    ggml_context * c = context_.get();
    return add_tensor(b < 0 ? ggml_glu(c, at(a), known, swapped) : ggml_glu_split(c, at(a), at(b), known));
}

int MatrixProbe::reshape(int x, int64_t n_values, int64_t n_heads) {
    return add_tensor(ggml_reshape_3d(context_.get(), at(x), n_values, n_heads, at(x)->ne[1]));
}

int MatrixProbe::flatten(int x) {
    return add_tensor(ggml_reshape_2d(context_.get(), at(x), at(x)->ne[0] * at(x)->ne[1], at(x)->ne[2]));
}

int MatrixProbe::pick_rows(int x, int64_t n) {
    ggml_tensor * rows = ggml_new_tensor_1d(context_.get(), GGML_TYPE_I32, n);
    ggml_set_input(rows);
    return add_tensor(ggml_get_rows(context_.get(), at(x), rows));
}

void MatrixProbe::expand(int tensor) {
    ggml_build_forward_expand(graph_, at(tensor));
}

void MatrixProbe::set_output(int tensor) {
    ggml_set_output(at(tensor));
}

MatrixServices MatrixProbe::services(const std::set<std::string> & left) const {
    return {
        [left](const ggml_tensor & product) -> std::variant<MatrixRows, std::string> {
            const ggml_tensor & weights = *product.src[0];
            if (left.count(weights.name) != 0 || weights.type == GGML_TYPE_F32) {
                return std::string("it is left");
            }
            return weights.type == GGML_TYPE_F16 ? MatrixRows::f32 : MatrixRows::int8;
        },
        [this](const ggml_tensor & tensor) { return weights_.count(&tensor) != 0; },
        [this](const ggml_tensor & node, MatrixRows) { return writers_.count(&node) != 0; },
    };
}

py::dict MatrixProbe::plan(const std::set<std::string> & left) const {
    const MatrixPlan plan = match_matrices(*graph_, services(left));
    py::dict result;
    result["nodes"] = words_of(plan);
    result["n_served"] = plan.n_served;
    result["n_stock"] = plan.n_stock;
    result["reason"] = plan.reason;
    return result;
}

void MatrixProbe::apply(const std::set<std::string> & left) {
    const MatrixPlan plan = match_matrices(*graph_, services(left));
    MatrixEdit edit(context_.get(), plan, setup_);
    edit.apply(*graph_, [](ggml_tensor &, MatrixRows) {});
    check();
}

// Sources come before their readers, and uses are as many as there are.
void MatrixProbe::check() const {
    std::unordered_map<const ggml_tensor *, int> n_uses_of;
    for (int i = 0; i < graph_->n_nodes; i++) {
        ggml_tensor * node = graph_->nodes[i];
        for (const ggml_tensor * source : node->src) {
            if (source == nullptr) {
                continue;
            }
            n_uses_of[source]++;
            const int index = node_index(*graph_, source);
            if (index >= i || (index < 0 && !is_leaf(*graph_, source))) {
                throw std::logic_error(std::string(node->name) + " reads " + source->name + ", which is not before it");
            }
        }
        if (node->view_src != nullptr && node_index(*graph_, node->view_src) < 0 && !is_leaf(*graph_, node->view_src)) {
            throw std::logic_error(std::string(node->name) + " is a view of " + node->view_src->name +
                                   ", which is gone");
        }
    }
    for (const auto & [tensor, n] : n_uses_of) {
        if (n_uses(*graph_, tensor) != n) {
            throw std::logic_error(std::string(tensor->name) + " is not used as often as the graph says");
        }
    }
}

py::list MatrixProbe::nodes() const {
    py::list result;
    for (int i = 0; i < graph_->n_nodes; i++) {
        const ggml_tensor & node = *graph_->nodes[i];
        py::list sources;
        for (const ggml_tensor * source : node.src) {
            if (source != nullptr) {
                sources.append(source->name);
            }
        }
        result.append(py::make_tuple(ggml_op_name(node.op), node.name, sources));
    }
    return result;
}

std::vector<std::string> MatrixProbe::outputs() const {
    std::vector<std::string> names;
    for (int i = 0; i < graph_->n_nodes; i++) {
        if ((graph_->nodes[i]->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) {
            names.emplace_back(graph_->nodes[i]->name);
        }
    }
    return names;
}

void bind_matrix_probe(py::module_ & m) {
    py::class_<MatrixProbe>(m, "MatrixProbe")
        .def(py::init<>())
        .def("input", &MatrixProbe::input, py::arg("n_values"), py::arg("n_tokens"))
        .def("weight", &MatrixProbe::weight, py::arg("name"), py::arg("type"), py::arg("n_values"), py::arg("n_rows"))
        .def("attention", &MatrixProbe::attention, py::arg("head_dim"), py::arg("n_head"), py::arg("n_tokens"))
        .def("multiply", &MatrixProbe::multiply, py::arg("weight"), py::arg("x"))
        .def("add", &MatrixProbe::add, py::arg("a"), py::arg("b"))
        .def("scale_by", &MatrixProbe::scale_by, py::arg("x"), py::arg("weight"))
        .def("rms_norm", &MatrixProbe::rms_norm, py::arg("x"))
        .def("glu", &MatrixProbe::glu, py::arg("op"), py::arg("a"), py::arg("b") = -1, py::arg("swapped") = false)
        .def("reshape", &MatrixProbe::reshape, py::arg("x"), py::arg("n_values"), py::arg("n_heads"))
        .def("flatten", &MatrixProbe::flatten, py::arg("x"))
        .def("pick_rows", &MatrixProbe::pick_rows, py::arg("x"), py::arg("n"))
        .def("expand", &MatrixProbe::expand, py::arg("tensor"))
        .def("set_output", &MatrixProbe::set_output, py::arg("tensor"))
        .def("plan", &MatrixProbe::plan, py::arg("left") = std::set<std::string>())
        .def("apply", &MatrixProbe::apply, py::arg("left") = std::set<std::string>())
        .def("nodes", &MatrixProbe::nodes)
        .def("outputs", &MatrixProbe::outputs);
}

}  // namespace orin
