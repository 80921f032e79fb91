#include "attention_probe.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <stdexcept>
#include <thread>

#include "../attention/kv_rows.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace py = pybind11;

namespace orin {

namespace {

struct TypeNames {
    attention::KvType ours;
    ggml_type theirs;
};

const std::map<std::string, TypeNames> kv_types = {
    {"f16", {attention::KvType::f16, GGML_TYPE_F16}},
    {"bf16", {attention::KvType::bf16, GGML_TYPE_BF16}},
    {"q8_0", {attention::KvType::q8_0, GGML_TYPE_Q8_0}},
    {"q4_0", {attention::KvType::q4_0, GGML_TYPE_Q4_0}},
};

void expect(bool so, const char * what) {
    if (!so) {
        throw std::invalid_argument(std::string("the sizes of the attention probe do not fit: ") + what);
    }
}

void check(const AttentionInputs & in) {
    expect(in.q.ndim() == 3 && in.q.strides(2) == sizeof(float), "q");
    expect(in.k.ndim() == 2 && in.v.ndim() == 2 && in.k.shape(0) == in.v.shape(0), "k and v");
    expect(in.k.strides(1) == 1 && in.v.strides(1) == 1, "k and v are not contiguous");
    expect(in.block_tables.ndim() == 2 && in.rows.ndim() == 1 && in.positions.ndim() == 1, "dimensions");
    expect(in.rows.shape(0) == in.q.shape(0) && in.positions.shape(0) == in.q.shape(0), "rows and positions");
    expect(in.n_head_kv > 0 && in.q.shape(1) % in.n_head_kv == 0, "n_head_kv");
    expect(!in.sinks || in.sinks->size() == in.q.shape(1), "sinks");
    const auto n_k = int32_t(in.n_head_kv * in.q.shape(2));
    expect(size_t(in.k.shape(1)) >= attention::row_bytes(kv_types.at(in.k_type).ours, n_k), "bytes of k");
    const int32_t n_v = in.n_head_kv * in.head_dim_v;
    expect(size_t(in.v.shape(1)) >= attention::row_bytes(kv_types.at(in.v_type).ours, n_v), "bytes of v");
    const auto rows = in.rows.unchecked<1>();
    const auto positions = in.positions.unchecked<1>();
    const auto tables = in.block_tables.unchecked<2>();
    for (py::ssize_t i = 0; i < rows.shape(0); ++i) {
        expect(rows(i) >= 0 && rows(i) < tables.shape(0), "row");
        expect(positions(i) >= 0 && positions(i) < tables.shape(1) * in.page_size, "position");
    }
    for (py::ssize_t i = 0; i < tables.size(); ++i) {
        const int64_t page = tables.data(0, 0)[i];
        expect(page >= 0 && (page + 1) * in.page_size <= in.k.shape(0), "page");
    }
}

attention::Limits limits_of(const AttentionInputs & in) {
    check(in);
    attention::Limits limits;
    limits.n_threads = in.max_threads;
    limits.n_tokens = int32_t(in.q.shape(0));
    limits.n_head = int32_t(in.q.shape(1));
    limits.head_dim_k = int32_t(in.q.shape(2));
    limits.head_dim_v = in.head_dim_v;
    return limits;
}

attention::PagedAttention op_of(const AttentionInputs & in) {
    attention::PagedAttention op;
    op.n_head = int32_t(in.q.shape(1));
    op.n_head_kv = in.n_head_kv;
    op.head_dim_k = int32_t(in.q.shape(2));
    op.head_dim_v = in.head_dim_v;
    op.scale = in.scale;
    op.softcap = in.softcap;
    op.window = in.window;
    op.sinks = in.sinks ? in.sinks->data() : nullptr;
    op.k_type = kv_types.at(in.k_type).ours;
    op.v_type = kv_types.at(in.v_type).ours;
    op.k = in.k.data();
    op.v = in.v.data();
    op.k_row_bytes = size_t(in.k.strides(0));
    op.v_row_bytes = size_t(in.v.strides(0));
    op.page_size = in.page_size;
    op.block_tables = in.block_tables.data();
    op.max_pages = int32_t(in.block_tables.shape(1));
    op.n_tokens = int32_t(in.q.shape(0));
    op.rows = in.rows.data();
    op.positions = in.positions.data();
    op.q = in.q.data();
    op.q_token_stride = in.q.strides(0) / py::ssize_t(sizeof(float));
    op.q_head_stride = in.q.strides(1) / py::ssize_t(sizeof(float));
    return op;
}

std::vector<uint16_t> mask_of(const attention::PagedAttention & op) {
    const int32_t n_kv = *std::max_element(op.positions, op.positions + op.n_tokens) + 1;
    std::vector<uint16_t> mask;
    for (int32_t i = 0; i < op.n_tokens; ++i) {
        for (int32_t t = 0; t < n_kv; ++t) {
            const int32_t distance = op.positions[i] - t;
            const bool seen = distance >= 0 && (op.window == 0 || distance < op.window);
            mask.push_back(ggml_fp32_to_fp16(seen ? 0.0f : -INFINITY));
        }
    }
    return mask;
}

struct PagedNode {
    attention::PagedAttention op;
    attention::Workspace * workspace;
};

void compute_paged(ggml_tensor * dst, int ith, int nth, void * userdata) {
    const auto & node = *static_cast<const PagedNode *>(userdata);
    attention::PagedAttention op = node.op;
    op.out = static_cast<float *>(dst->data);
    attention::run(op, *node.workspace, ith, nth);
}

// [dim, n_tokens, n_head], of what lies as [n_tokens, n_head, dim] in memory.
ggml_tensor * by_head(ggml_context * ctx, ggml_type type, const void * data, int64_t dim, int64_t n_head,
                      int64_t n_tokens, size_t head_bytes, size_t token_bytes) {
    ggml_tensor * tensor = ggml_new_tensor_3d(ctx, type, dim, n_tokens, n_head);
    tensor->data = const_cast<void *>(data);
    tensor->nb[1] = token_bytes;
    tensor->nb[2] = head_bytes;
    tensor->nb[3] = head_bytes * size_t(n_head);
    return tensor;
}

}  // namespace

AttentionProbe::AttentionProbe(AttentionInputs inputs)
    : inputs_(std::move(inputs)), limits_(limits_of(inputs_)), op_(op_of(inputs_)), workspace_(limits_) {}

AttentionProbe::Result AttentionProbe::empty_result() const {
    return Result({op_.n_tokens, op_.n_head, op_.head_dim_v});
}

AttentionProbe::Result AttentionProbe::run(int n_threads, int max_delay_us, uint32_t seed) {
    Result result = empty_result();
    op_.out = result.mutable_data();
    std::fill(op_.out, op_.out + result.size(), NAN);  // what is not written shows
    std::mt19937 random(seed);
    const py::gil_scoped_release release;
    std::vector<std::thread> threads;
    for (int i = 0; i < n_threads; ++i) {
        const auto delay = std::chrono::microseconds(max_delay_us == 0 ? 0 : random() % uint32_t(max_delay_us));
        threads.emplace_back([this, i, n_threads, delay] {
            std::this_thread::sleep_for(delay);
            attention::run(op_, workspace_, i, n_threads);
        });
    }
    for (std::thread & thread : threads) {
        thread.join();
    }
    return result;
}

AttentionProbe::Result AttentionProbe::run_stock(int n_threads) {
    Result result = empty_result();
    run_graph(/*stock=*/true, n_threads, 1, result.mutable_data());
    return result;
}

double AttentionProbe::time(bool stock, int n_threads, int n_nodes) {
    return run_graph(stock, n_threads, n_nodes, empty_result().mutable_data());
}

double AttentionProbe::run_graph(bool stock, int n_threads, int n_nodes, float * out) {
    const py::gil_scoped_release release;
    const size_t bytes = size_t(n_nodes + 8) * ggml_tensor_overhead() + ggml_graph_overhead();
    const ggml_context_ptr owner(ggml_init({bytes, /*mem_buffer=*/nullptr, /*no_alloc=*/true}));
    ggml_context * ctx = owner.get();
    const int64_t n_kv = *std::max_element(op_.positions, op_.positions + op_.n_tokens) + 1;
    if (stock && mask_.empty()) {
        mask_ = mask_of(op_);
    }
    ggml_tensor * q = by_head(ctx, GGML_TYPE_F32, op_.q, op_.head_dim_k, op_.n_head, op_.n_tokens,
                              size_t(op_.q_head_stride) * sizeof(float), size_t(op_.q_token_stride) * sizeof(float));
    ggml_tensor * k = by_head(ctx, kv_types.at(inputs_.k_type).theirs, op_.k, op_.head_dim_k, op_.n_head_kv, n_kv,
                              attention::row_bytes(op_.k_type, op_.head_dim_k), op_.k_row_bytes);
    ggml_tensor * v = by_head(ctx, kv_types.at(inputs_.v_type).theirs, op_.v, op_.head_dim_v, op_.n_head_kv, n_kv,
                              attention::row_bytes(op_.v_type, op_.head_dim_v), op_.v_row_bytes);
    ggml_tensor * mask = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, n_kv, op_.n_tokens);
    mask->data = mask_.data();
    ggml_tensor * sinks = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, op_.n_head);
    sinks->data = const_cast<float *>(op_.sinks);

    PagedNode paged{op_, &workspace_};
    ggml_cgraph * graph = ggml_new_graph(ctx);
    for (int i = 0; i < n_nodes; ++i) {
        ggml_tensor * node;
        if (stock) {
            node = ggml_flash_attn_ext(ctx, q, k, v, mask, op_.scale, /*max_bias=*/0.0f, op_.softcap);
            ggml_flash_attn_ext_add_sinks(node, op_.sinks == nullptr ? nullptr : sinks);
        } else {
            node = ggml_custom_4d(ctx, GGML_TYPE_F32, op_.head_dim_v, op_.n_head, op_.n_tokens, 1, &q, 1, compute_paged,
                                  GGML_N_TASKS_MAX, &paged);
        }
        node->data = out;
        ggml_build_forward_expand(graph, node);
    }
    ggml_cplan plan = ggml_graph_plan(graph, n_threads, /*threadpool=*/nullptr);
    std::vector<uint8_t> work(plan.work_size);
    plan.work_data = work.data();
    const auto start = std::chrono::steady_clock::now();
    ggml_graph_compute(graph, &plan);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / n_nodes;
}

double AttentionProbe::time_write(int n_threads, int n_repeats) {
    const py::gil_scoped_release release;
    const size_t bytes = 64 * ggml_tensor_overhead() + size_t(2 * n_repeats) * ggml_tensor_overhead() +
                         ggml_graph_overhead_custom(size_t(2 * n_repeats + 8), /*grads=*/false);
    const ggml_context_ptr owner(ggml_init({bytes, /*mem_buffer=*/nullptr, /*no_alloc=*/true}));
    ggml_context * ctx = owner.get();
    std::vector<int64_t> cells;
    for (int32_t i = 0; i < op_.n_tokens; ++i) {
        const int32_t * table = op_.block_tables + size_t(op_.rows[i]) * op_.max_pages;
        const int64_t page = table[op_.positions[i] / op_.page_size];
        cells.push_back(page * op_.page_size + op_.positions[i] % op_.page_size);
    }
    ggml_tensor * index = ggml_new_tensor_1d(ctx, GGML_TYPE_I64, op_.n_tokens);
    index->data = cells.data();
    const int64_t n_cells = inputs_.k.shape(0);
    const int64_t n_k = int64_t(op_.n_head_kv) * op_.head_dim_k;
    const int64_t n_v = int64_t(op_.n_head_kv) * op_.head_dim_v;
    std::vector<float> values(size_t(std::max(n_k, n_v) * op_.n_tokens), 0.5f);

    ggml_cgraph * graph = ggml_new_graph_custom(ctx, size_t(2 * n_repeats + 8), /*grads=*/false);
    auto add = [&](ggml_type type, void * data, int64_t n, size_t row_bytes) {
        ggml_tensor * into = ggml_new_tensor_2d(ctx, type, n, n_cells);
        into->data = data;
        into->nb[1] = row_bytes;
        into->nb[2] = into->nb[3] = row_bytes * size_t(n_cells);
        ggml_tensor * from = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n, op_.n_tokens);
        from->data = values.data();
        for (int i = 0; i < n_repeats; ++i) {
            ggml_tensor * node = ggml_set_rows(ctx, into, from, index);
            node->data = data;
            ggml_build_forward_expand(graph, node);
        }
    };
    add(kv_types.at(inputs_.k_type).theirs, const_cast<uint8_t *>(inputs_.k.data()), n_k, op_.k_row_bytes);
    add(kv_types.at(inputs_.v_type).theirs, const_cast<uint8_t *>(inputs_.v.data()), n_v, op_.v_row_bytes);
    ggml_cplan plan = ggml_graph_plan(graph, n_threads, /*threadpool=*/nullptr);
    std::vector<uint8_t> work(plan.work_size);
    plan.work_data = work.data();
    const auto start = std::chrono::steady_clock::now();
    ggml_graph_compute(graph, &plan);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / n_repeats;
}

size_t AttentionProbe::workspace_bytes() const {
    return attention::Workspace::bytes(limits_);
}

void bind_attention_probe(py::module_ & m) {
    py::class_<AttentionProbe>(m, "AttentionProbe")
        .def(py::init([](py::array_t<float> q, py::array_t<uint8_t> k, py::array_t<uint8_t> v,
                         const std::string & k_type, const std::string & v_type, int32_t n_head_kv, int32_t head_dim_v,
                         int32_t page_size, py::array_t<int32_t, py::array::c_style> block_tables,
                         py::array_t<int32_t, py::array::c_style> rows,
                         py::array_t<int32_t, py::array::c_style> positions, float scale, float softcap, int32_t window,
                         std::optional<py::array_t<float>> sinks, int32_t max_threads) {
                 return std::make_unique<AttentionProbe>(
                     AttentionInputs{q, k, v, k_type, v_type, n_head_kv, head_dim_v, page_size, block_tables, rows,
                                     positions, scale, softcap, window, std::move(sinks), max_threads});
             }),
             py::kw_only(), py::arg("q"), py::arg("k"), py::arg("v"), py::arg("k_type"), py::arg("v_type"),
             py::arg("n_head_kv"), py::arg("head_dim_v"), py::arg("page_size"), py::arg("block_tables"),
             py::arg("rows"), py::arg("positions"), py::arg("scale"), py::arg("softcap") = 0.0f, py::arg("window") = 0,
             py::arg("sinks") = py::none(), py::arg("max_threads") = 4)
        .def("run", &AttentionProbe::run, py::arg("n_threads") = 1, py::kw_only(), py::arg("max_delay_us") = 0,
             py::arg("seed") = 0)
        .def("run_stock", &AttentionProbe::run_stock, py::arg("n_threads") = 1)
        .def("time", &AttentionProbe::time, py::kw_only(), py::arg("stock"), py::arg("n_threads"), py::arg("n_nodes"))
        .def("time_write", &AttentionProbe::time_write, py::kw_only(), py::arg("n_threads"), py::arg("n_repeats"))
        .def_property_readonly("workspace_bytes", &AttentionProbe::workspace_bytes);
}

}  // namespace orin
