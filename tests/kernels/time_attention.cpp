// Times of attention over pages.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "bind_kernels.h"
#include "device_array.h"
#include "multiprocessors.h"
#include "paged_attention.h"
#include "timing.h"

namespace py = pybind11;

namespace orin::kernels {
namespace {

using Bytes = py::array_t<uint8_t, py::array::c_style | py::array::forcecast>;

constexpr int32_t page_size = 16;

template <typename Value>
Memory copy_of(const std::vector<Value> & values) {
    Memory memory(values.size() * sizeof(Value));
    memory.fill(values.data(), values.size() * sizeof(Value));
    return memory;
}

std::vector<int32_t> count_up(size_t n, int32_t first) {
    std::vector<int32_t> numbers(n);
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
}

// A step over contexts of `depth` tokens: the last token of each of n_tokens sequences, or with `prompt` the last
// n_tokens of one. k_row, v_row: K and V of a cell [bytes], there over and over. Returns microseconds of a launch, and
// the splits; None where the form does not cover this.
std::optional<std::pair<std::vector<double>, int32_t>> time_attention(const Bytes & k_row, const Bytes & v_row,
                                                                      int k_type, int v_type, int form, int32_t n_head,
                                                                      int32_t n_head_kv, int32_t head_dim,
                                                                      int32_t depth, int32_t n_tokens, bool prompt,
                                                                      size_t cache_bytes, int repetitions) {
    const auto k_row_bytes = size_t(k_row.nbytes());
    const auto v_row_bytes = size_t(v_row.nbytes());
    const size_t n_sequences = prompt ? 1 : size_t(n_tokens);
    const int32_t pages = (depth + page_size - 1) / page_size;
    const size_t step_bytes = (k_row_bytes + v_row_bytes) * size_t(pages) * page_size * n_sequences;
    const size_t n_copies = std::max<size_t>(4, (cache_bytes + step_bytes - 1) / step_bytes);
    const size_t n_rows = n_copies * n_sequences;
    const size_t n_cells = n_rows * size_t(pages) * page_size;
    Memory k(n_cells * k_row_bytes);
    Memory v(n_cells * v_row_bytes);
    k.fill(k_row.data(), k_row_bytes);
    v.fill(v_row.data(), v_row_bytes);
    const Memory tables = copy_of(count_up(n_rows * size_t(pages), 0));
    // Of all copies' tokens.
    std::vector<int32_t> row_numbers(n_copies * size_t(n_tokens));
    std::vector<int32_t> places(row_numbers.size());
    for (size_t i = 0; i < row_numbers.size(); i++) {
        row_numbers[i] = int32_t(prompt ? i / size_t(n_tokens) : i);
        places[i] = depth - 1 - (prompt ? n_tokens - 1 - int32_t(i % size_t(n_tokens)) : 0);
    }
    const Memory rows = copy_of(row_numbers);
    const Memory positions = copy_of(places);
    const size_t n_values = size_t(n_head) * size_t(head_dim);
    const Memory q = copy_of(std::vector<float>(size_t(n_tokens) * n_values, 0.01f));
    const Memory out(size_t(n_tokens) * n_values * sizeof(float));

    cuda::PagedAttentionParams p{};
    p.kv.k_type = static_cast<cuda::KvType>(k_type);
    p.kv.v_type = static_cast<cuda::KvType>(v_type);
    p.kv.k = k.at<uint8_t>();
    p.kv.v = v.at<uint8_t>();
    p.kv.k_row_bytes = int64_t(k_row_bytes);
    p.kv.v_row_bytes = int64_t(v_row_bytes);
    p.kv.n_head_kv = n_head_kv;
    p.kv.head_dim_k = p.kv.head_dim_v = head_dim;
    p.kv.page_size = page_size;
    p.kv.block_tables = tables.at<int32_t>();
    p.kv.max_pages = pages;
    p.n_head = n_head;
    p.scale = 0.1f;
    p.n_tokens = n_tokens;
    p.q = q.at<float>();
    p.q_token_stride = int64_t(n_values);
    p.q_head_stride = head_dim;
    p.out = {cuda::RowFormat::f32, int32_t(n_values), out.at<void>()};
    p.form = static_cast<cuda::AttentionForm>(form);
    p.tokens_per_block = 1;
    p.n_splits = 1;
    if (!cuda::paged_attention_supports(p)) {
        return std::nullopt;
    }
    p.tokens_per_block = prompt ? cuda::paged_attention_max_tokens_per_block(p) : 1;
    int32_t n_multiprocessors = 0;
    check(cuda::count_multiprocessors(/*device=*/0, n_multiprocessors), "device");
    p.n_splits = cuda::paged_attention_splits(p, n_multiprocessors);
    const Memory workspace(cuda::paged_attention_workspace_bytes(p));
    Memory counters(cuda::paged_attention_counter_bytes(p));
    counters.zero();
    if (p.n_splits > 1) {
        p.workspace = workspace.at<float>();
        p.counters = counters.at<int32_t>();
    }
    std::vector<Launch> launches;
    for (size_t copy = 0; copy < n_copies; copy++) {
        p.rows = rows.at<int32_t>(copy * size_t(n_tokens) * sizeof(int32_t));
        p.positions = positions.at<int32_t>(copy * size_t(n_tokens) * sizeof(int32_t));
        launches.push_back([p](cudaStream_t stream) { return cuda::paged_attention(p, stream); });
    }
    return std::pair(time_launches(launches, repetitions), p.n_splits);
}

}  // namespace

void bind_time_attention(py::module_ & module) {
    module.def("time_attention", &time_attention, py::arg("k_row"), py::arg("v_row"), py::kw_only(), py::arg("k_type"),
               py::arg("v_type"), py::arg("form"), py::arg("n_head"), py::arg("n_head_kv"), py::arg("head_dim"),
               py::arg("depth"), py::arg("n_tokens"), py::arg("prompt"), py::arg("cache_bytes"),
               py::arg("repetitions"));
}

}  // namespace orin::kernels
