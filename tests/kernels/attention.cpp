// Paged attention, and pages made contiguous.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>

#include "bind_kernels.h"
#include "device_array.h"
#include "kv_gather.h"
#include "paged_attention.h"

namespace py = pybind11;

namespace orin::kernels {

namespace {

using cuda::KvType;

// Bytes that are NaN as floats and -1 as integers.
py::array_t<uint8_t> garbage(size_t bytes) {
    py::array_t<uint8_t> result(static_cast<py::ssize_t>(bytes));
    std::memset(result.mutable_data(), 0xFF, bytes);
    return result;
}

KvType type_of(const std::string & name) {
    for (const auto & [known, type] :
         {std::pair{"f16", KvType::f16}, {"bf16", KvType::bf16}, {"q8_0", KvType::q8_0}, {"q4_0", KvType::q4_0}}) {
        if (name == known) {
            return type;
        }
    }
    throw std::invalid_argument("no type of K and V: " + name);
}

int32_t size_at(const py::array & array, int axis) {
    return static_cast<int32_t>(array.shape(axis));
}

// K and V of a pool, by the fields of a dictionary.
class Pool {
   public:
    explicit Pool(const py::dict & fields)
        : fields_(fields), k_(array<uint8_t>("k")), v_(array<uint8_t>("v")), tables_(array<int32_t>("block_tables")) {}

    cuda::PagedKv view() {
        cuda::PagedKv kv{};
        kv.k_type = type_of(fields_["k_type"].cast<std::string>());
        kv.v_type = type_of(fields_["v_type"].cast<std::string>());
        kv.k = k_.data();
        kv.v = v_.data();
        kv.k_row_bytes = array<uint8_t>("k").shape(1);
        kv.v_row_bytes = array<uint8_t>("v").shape(1);
        kv.n_head_kv = integer("n_head_kv");
        kv.head_dim_k = integer("head_dim_k");
        kv.head_dim_v = integer("head_dim_v");
        kv.page_size = integer("page_size");
        kv.block_tables = tables_.data();
        kv.max_pages = size_at(array<int32_t>("block_tables"), 1);
        return kv;
    }

    int32_t integer(const char * name) const { return fields_[name].cast<int32_t>(); }
    template <typename Value>
    typename DeviceArray<Value>::Array array(const char * name) const {
        return fields_[name].cast<typename DeviceArray<Value>::Array>();
    }

   private:
    py::dict fields_;
    DeviceArray<uint8_t> k_;
    DeviceArray<uint8_t> v_;
    DeviceArray<int32_t> tables_;
};

// Takes the memory of a name away.
void leave_out(const std::string & name, cuda::PagedAttentionParams & p) {
    const std::pair<const char *, std::function<void()>> all[] = {
        {"k", [&] { p.kv.k = nullptr; }},
        {"v", [&] { p.kv.v = nullptr; }},
        {"block_tables", [&] { p.kv.block_tables = nullptr; }},
        {"rows", [&] { p.rows = nullptr; }},
        {"positions", [&] { p.positions = nullptr; }},
        {"q", [&] { p.q = nullptr; }},
        {"out", [&] { p.out.rows = nullptr; }},
        {"workspace", [&] { p.workspace = nullptr; }},
        {"counters", [&] { p.counters = nullptr; }},
    };
    for (const auto & [known, clear] : all) {
        if (name == known) {
            clear();
        }
    }
}

const std::map<std::string, cuda::AttentionForm> forms = {{"fastest", cuda::AttentionForm::fastest},
                                                          {"floats", cuda::AttentionForm::floats},
                                                          {"matrices", cuda::AttentionForm::matrices}};

// q: [n_tokens, n_head or more, head_dim_k or more]. `missing`: memory to leave out. Returns the result of the last of
// n_launches with one workspace: rows as bytes.
py::array paged_attention(const py::dict & fields, int32_t n_head, const DeviceArray<float>::Array & q, float scale,
                          float softcap, int32_t window, const std::optional<DeviceArray<float>::Array> & sinks,
                          int32_t tokens_per_block, int32_t n_splits, int n_launches, const std::string & missing,
                          const std::string & form, int32_t row_format) {
    Pool pool(fields);
    DeviceArray<float> queries(q);
    DeviceArray<int32_t> rows(pool.array<int32_t>("rows"));
    DeviceArray<int32_t> positions(pool.array<int32_t>("positions"));
    DeviceArray<float> sink_values(sinks.value_or(DeviceArray<float>::Array(0)));

    cuda::PagedAttentionParams p{};
    p.kv = pool.view();
    p.n_head = n_head;
    p.scale = scale;
    p.softcap = softcap;
    p.window = window;
    p.sinks = sinks ? sink_values.data() : nullptr;
    p.n_tokens = size_at(q, 0);
    p.rows = rows.data();
    p.positions = positions.data();
    p.q = queries.data();
    p.q_token_stride = q.shape(1) * q.shape(2);
    p.q_head_stride = q.shape(2);
    p.tokens_per_block = tokens_per_block;
    p.n_splits = n_splits;
    p.form = forms.at(form);
    p.out.format = static_cast<cuda::RowFormat>(row_format);
    p.out.n_values = n_head * p.kv.head_dim_v;
    if (!cuda::paged_attention_supports(p)) {
        check(cuda::paged_attention(p, nullptr), "paged_attention");
        throw std::logic_error("launched, though not supported");
    }

    DeviceArray<uint8_t> workspace(garbage(cuda::paged_attention_workspace_bytes(p)));
    py::array_t<uint8_t> zeros = garbage(cuda::paged_attention_counter_bytes(p));
    std::memset(zeros.mutable_data(), 0, size_t(zeros.size()));
    DeviceArray<uint8_t> counters(zeros);
    if (n_splits > 1) {
        p.workspace = reinterpret_cast<float *>(workspace.data());
        p.counters = reinterpret_cast<int32_t *>(counters.data());
    }
    const size_t row_bytes = cuda::activation_row_bytes(p.out.format, p.out.n_values);
    const std::vector<py::ssize_t> shape = {p.n_tokens, py::ssize_t(row_bytes)};
    py::array_t<uint8_t> bytes = garbage(size_t(p.n_tokens) * row_bytes);
    py::array result;
    for (int i = 0; i < n_launches; i++) {
        DeviceArray<uint8_t> out(bytes);
        p.out.rows = out.data();
        leave_out(missing, p);
        if (!cuda::paged_attention_supports(p)) {
            throw std::logic_error("what is supported depends on memory");
        }
        check(cuda::paged_attention(p, nullptr), "paged_attention");
        result = out.read().reshape(shape);
    }
    const auto left = counters.read();
    if (std::any_of(left.data(), left.data() + left.size(), [](uint8_t byte) { return byte != 0; })) {
        throw std::logic_error("a launch left counters that are not 0");
    }
    return result;
}

// With K and V of f16.
int32_t paged_attention_splits(int32_t n_tokens, int32_t n_head, int32_t n_head_kv, int32_t head_dim,
                               int32_t tokens_per_block, int32_t n_multiprocessors, const std::string & form) {
    cuda::PagedAttentionParams p{};
    p.n_tokens = n_tokens;
    p.n_head = n_head;
    p.kv.n_head_kv = n_head_kv;
    p.kv.head_dim_k = p.kv.head_dim_v = head_dim;
    p.kv.k_row_bytes = p.kv.v_row_bytes = n_head_kv * int64_t(cuda::kv_row_bytes(KvType::f16, head_dim));
    p.tokens_per_block = tokens_per_block;
    p.form = forms.at(form);
    return cuda::paged_attention_splits(p, n_multiprocessors);
}

// By place: [place, row, begin, end]
class Segments {
   public:
    explicit Segments(const DeviceArray<int32_t>::Array & rows) : rows_(rows), n_(size_at(rows, 0)) {}
    cuda::KvSegments view() { return {reinterpret_cast<const cuda::KvSegment *>(rows_.data()), n_}; }

   private:
    DeviceArray<int32_t> rows_;
    int32_t n_;
};

// Halves as [n_positions, n_head_kv + pad, head_dim + pad · 8]; what is not written stays garbage.
py::tuple kv_gather(const py::dict & fields, const DeviceArray<int32_t>::Array & segments, int32_t n_positions,
                    int32_t pad) {
    Pool pool(fields);
    Segments from(segments);
    cuda::KvGatherParams p{};
    p.kv = pool.view();
    p.from = from.view();
    p.n_positions = n_positions;
    const auto shape_of = [&](int32_t head_dim) {
        return std::vector<py::ssize_t>{n_positions, p.kv.n_head_kv + pad, head_dim + pad * 8};
    };
    const auto garbage_of = [&](const std::vector<py::ssize_t> & shape) {
        return garbage(size_t(shape[0] * shape[1] * shape[2]) * sizeof(uint16_t));
    };
    const auto k_shape = shape_of(p.kv.head_dim_k);
    const auto v_shape = shape_of(p.kv.head_dim_v);
    DeviceArray<uint8_t> k(garbage_of(k_shape));
    DeviceArray<uint8_t> v(garbage_of(v_shape));
    p.k = {k.data(), k_shape[1] * k_shape[2], k_shape[2]};
    p.v = {v.data(), v_shape[1] * v_shape[2], v_shape[2]};
    check(cuda::kv_gather(p, nullptr), "kv_gather");
    return py::make_tuple(k.read().view("float16").reshape(k_shape), v.read().view("float16").reshape(v_shape));
}

// f16 [n_tokens, n_positions]
py::array kv_mask(const DeviceArray<int32_t>::Array & segments, int32_t n_positions,
                  const DeviceArray<int32_t>::Array & rows, const DeviceArray<int32_t>::Array & positions,
                  int32_t window) {
    Segments from(segments);
    DeviceArray<int32_t> token_rows(rows);
    DeviceArray<int32_t> token_positions(positions);
    const std::vector<py::ssize_t> shape = {rows.shape(0), n_positions};
    DeviceArray<uint8_t> mask(garbage(size_t(shape[0] * shape[1]) * sizeof(uint16_t)));
    check(cuda::kv_mask({from.view(), n_positions, size_at(rows, 0), token_rows.data(), token_positions.data(), window,
                         mask.data()},
                        nullptr),
          "kv_mask");
    return mask.read().view("float16").reshape(shape);
}

}  // namespace

void bind_attention(py::module_ & module) {
    module.def("paged_attention", &paged_attention, py::arg("fields"), py::arg("n_head"), py::arg("q"),
               py::arg("scale"), py::arg("softcap"), py::arg("window"), py::arg("sinks"), py::arg("tokens_per_block"),
               py::arg("n_splits"), py::arg("n_launches"), py::arg("missing"), py::arg("form"), py::arg("row_format"));
    module.def("paged_attention_splits", &paged_attention_splits, py::arg("n_tokens"), py::arg("n_head"),
               py::arg("n_head_kv"), py::arg("head_dim"), py::arg("tokens_per_block"), py::arg("n_multiprocessors"),
               py::arg("form"));
    module.def("kv_gather", &kv_gather, py::arg("fields"), py::arg("segments"), py::arg("n_positions"), py::arg("pad"));
    module.def("kv_mask", &kv_mask, py::arg("segments"), py::arg("n_positions"), py::arg("rows"), py::arg("positions"),
               py::arg("window"));
}

}  // namespace orin::kernels
