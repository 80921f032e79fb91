#include "rope_store_probe.h"

#include <pybind11/stl.h>

#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../engine/gpu.h"
#include "../hooks/rope_store_hook.h"
#include "../hooks/rope_store_match.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-impl.h"
#include "llama-impl.h"

namespace py = pybind11;

namespace orin {
namespace {

constexpr size_t max_tensors = 128;

ggml_context_ptr make_context() {
    const size_t bytes = max_tensors * ggml_tensor_overhead() + ggml_graph_overhead();
    return ggml_context_ptr(ggml_init({bytes, /*mem_buffer=*/nullptr, /*no_alloc=*/true}));
}

ggml_type type_named(const std::string & name) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
        if (name == ggml_type_name(type)) {
            return type;
        }
    }
    throw std::invalid_argument("no such type of cells: " + name);
}

std::vector<float> walsh_hadamard(int32_t n) {
    std::vector<float> matrix(static_cast<size_t>(n) * static_cast<size_t>(n));
    for (size_t i = 0; i < matrix.size(); i++) {
        const auto common = static_cast<unsigned>(i / static_cast<size_t>(n) & i % static_cast<size_t>(n));
        matrix[i] = (__builtin_popcount(common) % 2 == 0 ? 1.0f : -1.0f) / std::sqrt(static_cast<float>(n));
    }
    return matrix;
}

// What upstream's graph has of a layer.
class Layer {
   public:
    Layer(const RopeStoreProbe & probe, int64_t n_tokens) : p(probe), n_tokens_(n_tokens) {
        ggml_context * c = weights.get();
        k_cells = ggml_new_tensor_2d(c, type_named(p.k_type), int64_t{p.head_dim_k} * p.n_head_kv, p.n_cells);
        v_cells = ggml_new_tensor_2d(c, type_named(p.v_type), int64_t{p.head_dim_v} * p.n_head_kv, p.n_cells);
        if (!p.rope.freq_factors.empty()) {
            factors = ggml_new_tensor_1d(c, GGML_TYPE_F32, int64_t(p.rope.freq_factors.size()));
        }
        ggml_set_name(k_cells, "k_cells");
        ggml_set_name(v_cells, "v_cells");
    }

    void build() {
        ggml_context * c = nodes.get();
        graph = ggml_new_graph(c);
        positions = input(GGML_TYPE_I32, (p.rope.mode & GGML_ROPE_TYPE_MROPE) != 0 ? 4 * n_tokens_ : n_tokens_);
        k_index = input(GGML_TYPE_I64, n_tokens_);
        v_index = input(GGML_TYPE_I64, n_tokens_);
        make_projections();
        ggml_tensor * q_cur = p.twist == "q_not_turned" ? q : rope_node(p.rope, c, q, positions, factors);
        ggml_tensor * k_cur = turned_k();
        ggml_tensor * v_cur = v;
        if (p.q_scale != 1.0f) {
            q_cur = ggml_scale(c, q_cur, p.q_scale);
        }
        if (p.k_rotation > 0) {
            k_rotation = input(GGML_TYPE_F32, p.k_rotation, p.k_rotation);
            q_cur = llama_mul_mat_hadamard(c, q_cur, k_rotation);
            k_cur = llama_mul_mat_hadamard(c, k_cur, k_rotation);
        }
        if (p.v_rotation > 0) {
            v_rotation = input(GGML_TYPE_F32, p.v_rotation, p.v_rotation);
            v_cur = llama_mul_mat_hadamard(c, v_cur, v_rotation);
        }
        for (ggml_tensor * tensor : {q_cur, v_cur, k_cur}) {
            ggml_build_forward_expand(graph, tensor);
        }
        ggml_build_forward_expand(graph, store(k_cells, k_cur, k_index));
        if (p.twist == "stored_twice") {
            ggml_build_forward_expand(graph, store(k_cells, k_cur, v_index));
        }
        ggml_build_forward_expand(graph, store(v_cells, v_cur, v_index));
        attention = attention_over(q_cur);
        ggml_set_output(attention);
        ggml_build_forward_expand(graph, attention);
    }

    PagedLayer paged() const { return {k_cells, v_cells, 0, p.n_readers}; }

    const RopeStoreProbe & p;
    ggml_context_ptr weights = make_context();
    ggml_context_ptr nodes = make_context();
    ggml_cgraph * graph = nullptr;
    ggml_tensor * k_cells;
    ggml_tensor * v_cells;
    ggml_tensor * factors = nullptr;
    ggml_tensor * projection = nullptr;  // of Q, K and V together
    ggml_tensor * q = nullptr;
    ggml_tensor * k = nullptr;
    ggml_tensor * v = nullptr;
    ggml_tensor * positions = nullptr;
    ggml_tensor * k_index = nullptr;
    ggml_tensor * v_index = nullptr;
    ggml_tensor * k_rotation = nullptr;
    ggml_tensor * v_rotation = nullptr;
    ggml_tensor * mask = nullptr;
    ggml_tensor * attention = nullptr;

   private:
    ggml_tensor * input(ggml_type type, int64_t n0, int64_t n1 = 1, int64_t n2 = 1) {
        ggml_tensor * tensor = ggml_new_tensor_3d(nodes.get(), type, n0, n1, n2);
        ggml_set_input(tensor);
        return tensor;
    }

    void make_projections() {
        if (p.twist != "one_projection") {
            q = input(GGML_TYPE_F32, p.head_dim_k, p.n_head, n_tokens_);
            k = input(GGML_TYPE_F32, p.head_dim_k, p.n_head_kv, n_tokens_);
            v = input(GGML_TYPE_F32, p.head_dim_v, p.n_head_kv, n_tokens_);
            return;
        }
        const int64_t q_width = int64_t{p.head_dim_k} * p.n_head;
        const int64_t k_width = int64_t{p.head_dim_k} * p.n_head_kv;
        projection = input(GGML_TYPE_F32, q_width + k_width + int64_t{p.head_dim_v} * p.n_head_kv, n_tokens_);
        const auto part = [&](int64_t head_dim, int64_t n_head, int64_t first) {
            return ggml_view_3d(nodes.get(), projection, head_dim, n_head, n_tokens_, size_t(head_dim) * sizeof(float),
                                projection->nb[1], size_t(first) * sizeof(float));
        };
        q = part(p.head_dim_k, p.n_head, 0);
        k = part(p.head_dim_k, p.n_head_kv, q_width);
        v = part(p.head_dim_v, p.n_head_kv, q_width + k_width);
    }

    ggml_tensor * turned_k() {
        ggml_context * c = nodes.get();
        if (p.twist == "k_not_turned") {
            return k;
        }
        RopeProbe rope = p.rope;
        if (p.twist == "k_turns_differently") {
            rope.freq_base *= 2;
        }
        ggml_tensor * turned = rope_node(rope, c, k, positions, factors);
        if (p.twist == "k_read_twice") {
            ggml_build_forward_expand(graph, ggml_scale(c, turned, 2.0f));
        }
        return p.twist == "k_normed_behind" ? ggml_rms_norm(c, turned, 1e-6f) : turned;
    }

    ggml_tensor * store(ggml_tensor * cells, ggml_tensor * x, ggml_tensor * index) {
        ggml_tensor * rows = ggml_view_2d(nodes.get(), x, x->ne[0] * x->ne[1], n_tokens_, x->nb[2], 0);
        return ggml_set_rows(nodes.get(), cells, rows, index);
    }

    ggml_tensor * heads_of(ggml_tensor * cells, int64_t head_dim) {
        ggml_tensor * heads =
            ggml_view_4d(nodes.get(), cells, head_dim, p.n_head_kv, p.n_cells, 1, ggml_row_size(cells->type, head_dim),
                         cells->nb[1], cells->nb[1] * size_t(p.n_cells), 0);
        return ggml_permute(nodes.get(), heads, 0, 2, 1, 3);
    }

    ggml_tensor * attention_over(ggml_tensor * q_cur) {
        ggml_context * c = nodes.get();
        ggml_tensor * queries = ggml_view_4d(c, q_cur, q_cur->ne[0], q_cur->ne[1], q_cur->ne[2], 1, q_cur->nb[1],
                                             q_cur->nb[2], q_cur->nb[2] * size_t(q_cur->ne[2]), 0);
        queries = ggml_permute(c, queries, 0, 2, 1, 3);
        mask = input(GGML_TYPE_F16, p.n_cells, n_tokens_);
        return ggml_flash_attn_ext(c, queries, heads_of(k_cells, p.head_dim_k), heads_of(v_cells, p.head_dim_v), mask,
                                   1.0f / std::sqrt(float(p.head_dim_k)), 0.0f, 0.0f);
    }

    const int64_t n_tokens_;
};

template <typename T>
void set(ggml_tensor * tensor, const py::array_t<T> & values) {
    if (tensor->buffer != nullptr || (tensor->view_src != nullptr && tensor->view_src->buffer != nullptr)) {
        ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
    }
}

void set_projections(const Layer & layer, const py::array_t<float> & q, const py::array_t<float> & k,
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
    Layer layer(probe, cells.size());
    const ggml_backend_buffer_ptr weights(ggml_backend_alloc_ctx_tensors(layer.weights.get(), gpu.get()));
    ggml_backend_buffer_set_usage(weights.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_buffer_clear(weights.get(), 0);
    if (layer.factors != nullptr) {
        ggml_backend_tensor_set(layer.factors, probe.rope.freq_factors.data(), 0, ggml_nbytes(layer.factors));
    }
    layer.build();
    RopeStoreHook rope_store(probe.n_ctx);
    if (hook) {
        rope_store.graph_built(layer.nodes.get(), *layer.graph, {layer.paged()});
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
    return result;
}

std::string rope_store_misfit(const RopeStoreProbe & probe, int32_t n_tokens) {
    Layer layer(probe, n_tokens);
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
        .def_readwrite("n_readers", &RopeStoreProbe::n_readers)
        .def_readwrite("twist", &RopeStoreProbe::twist);
    m.def("run_rope_store", &run_rope_store, py::arg("probe"), py::arg("q"), py::arg("k"), py::arg("v"),
          py::arg("positions"), py::arg("cells"), py::kw_only(), py::arg("hook"));
    m.def("rope_store_misfit", &rope_store_misfit, py::arg("probe"), py::arg("n_tokens"));
}

}  // namespace orin
