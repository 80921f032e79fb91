#include "rope_store_probe.h"

#include <pybind11/stl.h>

#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../engine/gpu.h"
#include "../hooks/rope_store_hook.h"
#include "../hooks/rope_store_match.h"
#include "../hooks/rope_store_node.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-impl.h"

namespace py = pybind11;

namespace orin {
namespace {

std::vector<float> walsh_hadamard(int32_t n) {
    std::vector<float> matrix(static_cast<size_t>(n) * static_cast<size_t>(n));
    for (size_t i = 0; i < matrix.size(); i++) {
        const auto common = static_cast<unsigned>(i / static_cast<size_t>(n) & i % static_cast<size_t>(n));
        matrix[i] = (__builtin_popcount(common) % 2 == 0 ? 1.0f : -1.0f) / std::sqrt(static_cast<float>(n));
    }
    return matrix;
}

template <typename T>
void set(ggml_tensor * tensor, const py::array_t<T> & values) {
    if (tensor->buffer != nullptr || (tensor->view_src != nullptr && tensor->view_src->buffer != nullptr)) {
        ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
    }
}

void set_projections(const RopeStoreLayer & layer, const py::array_t<float> & q, const py::array_t<float> & k,
                     const py::array_t<float> & v) {
    if (layer.projection == nullptr) {
        set(layer.q, q);
        set(layer.k, k);
        set(layer.v, v);
        return;
    }
    const auto put = [&](const ggml_tensor & part, const py::array_t<float> & values) {
        const size_t row = static_cast<size_t>(part.ne[0] * part.ne[1]) * sizeof(float);
        for (int64_t token = 0; token < part.ne[2]; token++) {
            ggml_backend_tensor_set(layer.projection, values.data() + token * part.ne[0] * part.ne[1],
                                    part.view_offs + static_cast<size_t>(token) * part.nb[2], row);
        }
    };
    put(*layer.q, q);
    put(*layer.k, k);
    put(*layer.v, v);
}

void set_rotation(ggml_tensor * matrix) {
    if (matrix != nullptr && matrix->buffer != nullptr) {
        ggml_backend_tensor_set(matrix, walsh_hadamard(int32_t(matrix->ne[0])).data(), 0, ggml_nbytes(matrix));
    }
}

// A token sees the cells of those of the step whose position is not behind its own.
std::vector<ggml_fp16_t> mask_of(const RopeStoreProbe & probe, const py::array_t<int32_t> & positions,
                                 const py::array_t<int64_t> & cells) {
    const auto n_tokens = static_cast<size_t>(cells.size());
    std::vector<ggml_fp16_t> mask(n_tokens * static_cast<size_t>(probe.n_cells), ggml_fp32_to_fp16(-INFINITY));
    for (size_t token = 0; token < n_tokens; token++) {
        for (size_t other = 0; other < n_tokens; other++) {
            if (positions.data()[other] <= positions.data()[token]) {
                mask[token * static_cast<size_t>(probe.n_cells) + static_cast<size_t>(cells.data()[other])] = 0;
            }
        }
    }
    return mask;
}

py::array_t<uint8_t> bytes_of(const ggml_tensor & cells) {
    py::array_t<uint8_t> bytes({cells.ne[1], static_cast<int64_t>(cells.nb[1])});
    ggml_backend_tensor_get(&cells, bytes.mutable_data(), 0, ggml_nbytes(&cells));
    return bytes;
}

int n_computed(const ggml_cgraph & graph) {
    int n = 0;
    for (int i = 0; i < graph.n_nodes; i++) {
        const ggml_op op = graph.nodes[i]->op;
        n += op != GGML_OP_VIEW && op != GGML_OP_RESHAPE && op != GGML_OP_PERMUTE;
    }
    return n;
}

}  // namespace

py::dict run_rope_store(const RopeStoreProbe & probe, const py::array_t<float> & q, const py::array_t<float> & k,
                        const py::array_t<float> & v, const py::array_t<int32_t> & positions,
                        const py::array_t<int64_t> & cells, bool hook) {
    ggml_backend_dev_t device = first_gpu();
    if (device == nullptr) {
        throw std::runtime_error("expected a GPU, but this build or this machine has none");
    }
    const ggml_backend_ptr gpu(ggml_backend_dev_init(device, nullptr));
    RopeStoreLayer layer(probe, cells.size());
    const ggml_backend_buffer_ptr weights(ggml_backend_alloc_ctx_tensors(layer.weights.get(), gpu.get()));
    ggml_backend_buffer_set_usage(weights.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_buffer_clear(weights.get(), 0);
    if (layer.factors != nullptr) {
        ggml_backend_tensor_set(layer.factors, probe.rope.freq_factors.data(), 0, ggml_nbytes(layer.factors));
    }
    for (const auto & [tensor, values] : {std::pair{layer.q_norm, &probe.q_norm}, {layer.k_norm, &probe.k_norm}}) {
        if (tensor != nullptr) {
            ggml_backend_tensor_set(tensor, values->data(), 0, ggml_nbytes(tensor));
        }
    }
    layer.build();
    RopeStoreHook rope_store(probe.n_ctx);
    if (hook) {
        rope_store.graph_built(layer.nodes.get(), *layer.graph, {layer.paged()});
        for (int i = 0; i < layer.graph->n_nodes; i++) {
            if (is_rope_store(*layer.graph->nodes[i])) {
                prefetch_in_rope_store(*layer.graph->nodes[i], *layer.k_cells, probe.prefetched_bytes);
            }
        }
    }
    const ggml_gallocr_ptr allocator(ggml_gallocr_new(ggml_backend_get_default_buffer_type(gpu.get())));
    if (!ggml_gallocr_alloc_graph(allocator.get(), layer.graph)) {
        throw std::runtime_error("the graph got no memory");
    }
    set_projections(layer, q, k, v);
    set(layer.positions, positions);
    set(layer.k_index, cells);
    set(layer.v_index, cells);
    set_rotation(layer.k_rotation);
    set_rotation(layer.v_rotation);
    const std::vector<ggml_fp16_t> mask = mask_of(probe, positions, cells);
    ggml_backend_tensor_set(layer.mask, mask.data(), 0, ggml_nbytes(layer.mask));
    const int n_nodes = n_computed(*layer.graph);
    const bool attends = ggml_backend_supports_op(gpu.get(), layer.attention);
    layer.graph->n_nodes -= attends ? 0 : 1;
    if (ggml_backend_graph_compute(gpu.get(), layer.graph) != GGML_STATUS_SUCCESS) {
        throw std::runtime_error("the graph did not run");
    }
    py::object attention = py::none();
    if (attends) {
        py::array_t<float> values({cells.size(), py::ssize_t(probe.n_head), py::ssize_t(probe.head_dim_v)});
        ggml_backend_tensor_get(layer.attention, values.mutable_data(), 0, ggml_nbytes(layer.attention));
        attention = std::move(values);
    }
    const RopeStoreReport report = rope_store.report();
    py::dict result;
    result["k_cells"] = bytes_of(*layer.k_cells);
    result["v_cells"] = bytes_of(*layer.v_cells);
    result["attention"] = attention;
    result["n_computed"] = n_nodes;
    result["has_k_rotation"] = layer.k_rotation != nullptr && layer.k_rotation->buffer != nullptr;
    result["n_layers"] = report.n_layers;
    result["reason"] = report.reason;
    result["table_bytes"] = rope_store.table_bytes();
    result["n_outside"] = rope_store.n_outside();
    return result;
}

std::pair<bool, bool> rope_store_norms(const RopeStoreProbe & probe) {
    RopeStoreLayer layer(probe, 3);
    layer.build();
    const auto site = std::get<RopeStoreSite>(match_rope_store(*layer.graph, layer.paged()));
    return {site.q_norm.weight != nullptr, site.k_norm.weight != nullptr};
}

std::string rope_store_misfit(const RopeStoreProbe & probe, int32_t n_tokens) {
    RopeStoreLayer layer(probe, n_tokens);
    layer.build();
    const auto match = match_rope_store(*layer.graph, layer.paged());
    const auto * misfit = std::get_if<std::string>(&match);
    return misfit == nullptr ? "" : *misfit;
}

void bind_rope_store_probe(py::module_ & m) {
    py::class_<RopeStoreProbe>(m, "RopeStoreProbe")
        .def(py::init<>())
        .def_readwrite("rope", &RopeStoreProbe::rope)
        .def_readwrite("n_head", &RopeStoreProbe::n_head)
        .def_readwrite("n_head_kv", &RopeStoreProbe::n_head_kv)
        .def_readwrite("head_dim_k", &RopeStoreProbe::head_dim_k)
        .def_readwrite("head_dim_v", &RopeStoreProbe::head_dim_v)
        .def_readwrite("n_cells", &RopeStoreProbe::n_cells)
        .def_readwrite("n_ctx", &RopeStoreProbe::n_ctx)
        .def_readwrite("k_type", &RopeStoreProbe::k_type)
        .def_readwrite("v_type", &RopeStoreProbe::v_type)
        .def_readwrite("k_rotation", &RopeStoreProbe::k_rotation)
        .def_readwrite("v_rotation", &RopeStoreProbe::v_rotation)
        .def_readwrite("q_scale", &RopeStoreProbe::q_scale)
        .def_readwrite("q_norm", &RopeStoreProbe::q_norm)
        .def_readwrite("k_norm", &RopeStoreProbe::k_norm)
        .def_readwrite("norm_eps", &RopeStoreProbe::norm_eps)
        .def_readwrite("prefetched_bytes", &RopeStoreProbe::prefetched_bytes)
        .def_readwrite("n_readers", &RopeStoreProbe::n_readers)
        .def_readwrite("twist", &RopeStoreProbe::twist);
    m.def("run_rope_store", &run_rope_store, py::arg("probe"), py::arg("q"), py::arg("k"), py::arg("v"),
          py::arg("positions"), py::arg("cells"), py::kw_only(), py::arg("hook"));
    m.def("rope_store_norms", &rope_store_norms, py::arg("probe"));
    m.def("rope_store_misfit", &rope_store_misfit, py::arg("probe"), py::arg("n_tokens"));
}

}  // namespace orin
