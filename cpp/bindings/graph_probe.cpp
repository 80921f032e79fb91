#include "graph_probe.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <stdexcept>

#include "../hooks/graph_edit.h"
#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"

namespace py = pybind11;

namespace orin {

GraphProbe::GraphProbe(int max_nodes, int max_tensors) {
    const auto size = static_cast<size_t>(max_nodes);
    const size_t bytes =
        static_cast<size_t>(max_tensors) * ggml_tensor_overhead() + ggml_graph_overhead_custom(size, false);
    context_.reset(ggml_init({bytes, /*mem_buffer=*/nullptr, /*no_alloc=*/true}));
    graph_ = ggml_new_graph_custom(context_.get(), size, false);
}

void GraphProbe::skip(int n_tensors) {
    for (int i = 0; i < n_tensors; i++) {
        ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, 1);
    }
}

int GraphProbe::add_tensor(ggml_tensor * tensor) {
    tensors_.push_back(tensor);
    return static_cast<int>(tensors_.size()) - 1;
}

int GraphProbe::number(const ggml_tensor * tensor) const {
    const auto found = std::find(tensors_.begin(), tensors_.end(), tensor);
    return found == tensors_.end() ? -1 : static_cast<int>(found - tensors_.begin());
}

int GraphProbe::leaf(int64_t n) {
    ggml_tensor * leaf = ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, n);
    ggml_set_input(leaf);
    return add_tensor(leaf);
}

int GraphProbe::affine(int x, float scale, float bias) {
    return add_tensor(ggml_scale_bias(context_.get(), tensor(x), scale, bias));
}

int GraphProbe::add(int a, int b) {
    return add_tensor(ggml_add(context_.get(), tensor(a), tensor(b)));
}

int GraphProbe::scale_in_place(int x, float scale) {
    return add_tensor(ggml_scale_inplace(context_.get(), tensor(x), scale));
}

int GraphProbe::view(int x, int64_t first, int64_t n) {
    return add_tensor(ggml_view_1d(context_.get(), tensor(x), n, static_cast<size_t>(first) * sizeof(float)));
}

int GraphProbe::reshape(int x, int64_t n_rows) {
    return add_tensor(ggml_reshape_2d(context_.get(), tensor(x), ggml_nelements(tensor(x)) / n_rows, n_rows));
}

void GraphProbe::expand(int root) {
    ggml_build_forward_expand(graph_, tensor(root));
}

int GraphProbe::insert(int node, int index) {
    return insert_node(*graph_, tensor(node), index);
}

int GraphProbe::replace_uses(int old, int replacement) {
    return orin::replace_uses(*graph_, tensor(old), tensor(replacement));
}

void GraphProbe::set_source(int node, int slot, int source) {
    orin::set_source(*graph_, tensor(node), slot, source < 0 ? nullptr : tensor(source));
}

void GraphProbe::remove(int node) {
    remove_node(*graph_, tensor(node));
}

void GraphProbe::remove_leaf(int leaf) {
    orin::remove_leaf(*graph_, tensor(leaf));
}

py::dict GraphProbe::state() const {
    py::list nodes;
    py::list leafs;
    py::dict uses;
    py::list sources;
    py::list views;
    for (int i = 0; i < graph_->n_nodes; i++) {
        nodes.append(number(graph_->nodes[i]));
    }
    for (int i = 0; i < graph_->n_leafs; i++) {
        leafs.append(number(graph_->leafs[i]));
    }
    const ggml_hash_set & known = graph_->visited_hash_set;
    for (size_t slot = 0; slot < known.size; slot++) {
        // Only what is found where it lies is known.
        if (ggml_bitset_get(known.used, slot) && ggml_hash_find(&known, known.keys[slot]) == slot) {
            uses[py::int_(number(known.keys[slot]))] = graph_->use_counts[slot];
        }
    }
    size_t n_used = 0;
    for (size_t slot = 0; slot < known.size; slot++) {
        n_used += ggml_bitset_get(known.used, slot) ? 1 : 0;
    }
    for (const ggml_tensor * tensor : tensors_) {
        py::list of_tensor;
        for (const ggml_tensor * source : tensor->src) {
            if (source != nullptr) {
                of_tensor.append(number(source));
            }
        }
        sources.append(of_tensor);
        views.append(py::make_tuple(tensor->view_src == nullptr ? -1 : number(tensor->view_src),
                                    tensor->view_offs / sizeof(float)));
    }
    py::dict state;
    state["nodes"] = nodes;
    state["leafs"] = leafs;
    state["uses"] = uses;
    state["n_used_slots"] = n_used;
    state["sources"] = sources;
    state["views"] = views;
    return state;
}

std::map<int, std::vector<float>> GraphProbe::compute(const std::map<int, std::vector<float>> & leafs,
                                                      const std::vector<int> & outputs) {
    for (const int output : outputs) {
        ggml_set_output(tensor(output));
    }
    const ggml_backend_ptr backend(ggml_backend_cpu_init());
    const ggml_gallocr_ptr allocator(ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend.get())));
    if (!ggml_gallocr_alloc_graph(allocator.get(), graph_)) {
        throw std::runtime_error("the graph got no memory");
    }
    for (const auto & [leaf, values] : leafs) {
        if (tensor(leaf)->buffer != nullptr) {
            ggml_backend_tensor_set(tensor(leaf), values.data(), 0, ggml_nbytes(tensor(leaf)));
        }
    }
    if (ggml_backend_graph_compute(backend.get(), graph_) != GGML_STATUS_SUCCESS) {
        throw std::runtime_error("the graph did not run");
    }
    std::map<int, std::vector<float>> results;
    for (const int output : outputs) {
        std::vector<float> values(static_cast<size_t>(ggml_nelements(tensor(output))));
        ggml_backend_tensor_get(tensor(output), values.data(), 0, ggml_nbytes(tensor(output)));
        results[output] = std::move(values);
    }
    return results;
}

void bind_graph_probe(py::module_ & m) {
    py::class_<GraphProbe>(m, "GraphProbe")
        .def(py::init<int, int>(), py::kw_only(), py::arg("max_nodes"), py::arg("max_tensors"))
        .def("skip", &GraphProbe::skip, py::arg("n_tensors"))
        .def("leaf", &GraphProbe::leaf, py::arg("n"))
        .def("affine", &GraphProbe::affine, py::arg("x"), py::arg("scale"), py::arg("bias"))
        .def("add", &GraphProbe::add, py::arg("a"), py::arg("b"))
        .def("scale_in_place", &GraphProbe::scale_in_place, py::arg("x"), py::arg("scale"))
        .def("view", &GraphProbe::view, py::arg("x"), py::arg("first"), py::arg("n"))
        .def("reshape", &GraphProbe::reshape, py::arg("x"), py::arg("n_rows"))
        .def("expand", &GraphProbe::expand, py::arg("tensor"))
        .def("insert", &GraphProbe::insert, py::arg("tensor"), py::arg("index"))
        .def("replace_uses", &GraphProbe::replace_uses, py::arg("tensor"), py::arg("replacement"))
        .def("set_source", &GraphProbe::set_source, py::arg("tensor"), py::arg("slot"), py::arg("source"))
        .def("remove", &GraphProbe::remove, py::arg("tensor"))
        .def("remove_leaf", &GraphProbe::remove_leaf, py::arg("tensor"))
        .def("state", &GraphProbe::state)
        .def("compute", &GraphProbe::compute, py::arg("leafs"), py::arg("outputs"));
}

}  // namespace orin
