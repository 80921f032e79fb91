#include "sampling.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bind_kernels.h"
#include "device_array.h"

namespace py = pybind11;

namespace orin::kernels {
namespace {

using Floats = DeviceArray<float>;
using Ints = DeviceArray<int32_t>;
using Bytes = DeviceArray<uint8_t>;

template <typename Value>
Bytes to_device(const std::vector<Value> & values) {
    return Bytes(Bytes::Array(static_cast<py::ssize_t>(values.size() * sizeof(Value)),
                              reinterpret_cast<const uint8_t *>(values.data())));
}

Bytes workspace_of(int32_t n_rows, int32_t n_vocab) {
    return Bytes(Bytes::Array(static_cast<py::ssize_t>(cuda::sampling_workspace_bytes(n_rows, n_vocab))));
}

// The tables of all lanes, as sample() wants them: a sequence for each lane, in the opposite order.
struct Tables {
    std::vector<sampling::Lane> lanes;
    std::vector<int32_t> recent;  // [n_sequences, max_recent]
    int32_t max_recent = 0;
    std::vector<sampling::Bias> bias;  // [n_sequences, max_bias]
    int32_t max_bias = 0;
    std::vector<uint32_t> masks;  // [n_rows, n_words]
};

sampling::Lane lane_of(const py::dict & row) {
    sampling::Lane lane{};
    lane.params = {row["temperature"].cast<float>(),
                   row["top_k"].cast<int32_t>(),
                   row["top_p"].cast<float>(),
                   row["min_p"].cast<float>(),
                   row["repeat_penalty"].cast<float>(),
                   row["frequency_penalty"].cast<float>(),
                   row["presence_penalty"].cast<float>(),
                   row["order"].cast<std::string>() == "llama" ? sampling::Order::llama : sampling::Order::orin,
                   row["seed"].cast<uint64_t>()};
    lane.position = row["position"].cast<uint64_t>();
    lane.choice = row["choice"].cast<uint32_t>();
    lane.is_masked = row["mask"].is_none() ? 0 : 1;
    lane.recent_slot = -1;
    lane.n_logprobs = -1;
    return lane;
}

Tables tables_of(const std::vector<py::dict> & rows, int32_t n_vocab) {
    Tables tables;
    std::vector<std::vector<int32_t>> recent;
    std::vector<std::vector<sampling::Bias>> bias;
    for (const py::dict & row : rows) {
        tables.lanes.push_back(lane_of(row));
        recent.push_back(row["recent"].cast<std::vector<int32_t>>());
        bias.emplace_back();
        for (const auto & [token, value] : row["bias"].cast<std::vector<std::pair<int32_t, float>>>()) {
            bias.back().push_back({token, value});
        }
        tables.max_recent = std::max(tables.max_recent, static_cast<int32_t>(recent.back().size()));
        tables.max_bias = std::max(tables.max_bias, static_cast<int32_t>(bias.back().size()));
    }
    const auto n_words = static_cast<size_t>((n_vocab + 31) / 32);
    for (size_t i = 0; i < rows.size(); i++) {
        if (rows[i]["is_drawn"].cast<bool>()) {
            tables.lanes[i].sequence = static_cast<int32_t>(rows.size() - 1 - i);
        } else {
            tables.lanes[i].sequence = -1;
        }
        tables.lanes[i].n_recent = static_cast<int32_t>(recent[i].size());
        tables.lanes[i].n_bias = static_cast<int32_t>(bias[i].size());
        sampling::group_bias(bias[i].data(), tables.lanes[i].n_bias);
        // What a lane does not use would end in a token that no one asked for.
        recent[i].resize(static_cast<size_t>(tables.max_recent), 0);
        bias[i].resize(static_cast<size_t>(tables.max_bias), {0, 1000.0f});
        auto mask = std::vector<uint32_t>(n_words, 0);
        if (tables.lanes[i].is_masked != 0) {
            mask = rows[i]["mask"].cast<std::vector<uint32_t>>();
            if (mask.size() != n_words) {
                throw py::value_error("a mask of another vocabulary");
            }
        }
        tables.recent.insert(tables.recent.begin(), recent[i].begin(), recent[i].end());
        tables.bias.insert(tables.bias.begin(), bias[i].begin(), bias[i].end());
        tables.masks.insert(tables.masks.end(), mask.begin(), mask.end());
    }
    return tables;
}

// logits: [n_rows, row stride]. The tokens of n_calls calls in a row with one workspace: [n_calls, n_rows], -9 where
// nothing was written.
py::list sample(const Floats::Array & logits, int32_t n_vocab, const std::vector<py::dict> & rows, int32_t n_calls) {
    const Tables tables = tables_of(rows, n_vocab);
    const auto n_rows = static_cast<int32_t>(rows.size());
    Floats device_logits(logits);
    Bytes lanes = to_device(tables.lanes);
    Bytes recent = to_device(tables.recent);
    Bytes bias = to_device(tables.bias);
    Bytes masks = to_device(tables.masks);
    Bytes workspace = workspace_of(n_rows, n_vocab);
    cuda::SamplingParams p{};
    p.logits = device_logits.data();
    p.row_stride = logits.shape(1);
    p.n_rows = n_rows;
    p.n_vocab = n_vocab;
    p.lanes = reinterpret_cast<const sampling::Lane *>(lanes.data());
    p.recent = reinterpret_cast<const int32_t *>(recent.data());
    p.max_recent = tables.max_recent;
    p.bias = reinterpret_cast<const sampling::Bias *>(bias.data());
    p.max_bias = tables.max_bias;
    const bool has_masks =
        std::any_of(tables.lanes.begin(), tables.lanes.end(), [](const auto & lane) { return lane.is_masked != 0; });
    p.masks = has_masks ? reinterpret_cast<const uint32_t *>(masks.data()) : nullptr;
    p.workspace = workspace.data();
    py::list results;
    for (int32_t i = 0; i < n_calls; i++) {
        Ints::Array nothing(rows.size());
        std::fill_n(nothing.mutable_data(), nothing.size(), -9);
        Ints tokens(nothing);
        p.tokens = tokens.data();
        check(cuda::sample(p, nullptr), "sample");
        results.append(tokens.read());
    }
    return results;
}

// logits: [n_rows, row stride]; n_top: of each row, -1 for none. ids and logprobs: [n_rows, max_top_logprobs + 1], -9
// and NaN where nothing was written.
py::tuple logprobs(const Floats::Array & logits, int32_t n_vocab, const Ints::Array & tokens,
                   const std::vector<int32_t> & n_top) {
    const auto n_rows = static_cast<int32_t>(logits.shape(0));
    Floats device_logits(logits);
    Ints device_tokens(tokens);
    Bytes workspace = workspace_of(n_rows, n_vocab);
    std::vector<sampling::Lane> all_lanes(n_top.size());
    for (size_t i = 0; i < n_top.size(); i++) {
        all_lanes[i].n_logprobs = n_top[i];
    }
    Bytes lanes = to_device(all_lanes);
    const py::ssize_t n_places = sampling::max_top_logprobs + 1;
    const std::vector<sampling::TokenLogprob> nothing(static_cast<size_t>(n_rows * n_places),
                                                      {-9, std::numeric_limits<float>::quiet_NaN()});
    Bytes results = to_device(nothing);
    cuda::LogprobsParams p{};
    p.logits = device_logits.data();
    p.row_stride = logits.shape(1);
    p.n_rows = n_rows;
    p.n_vocab = n_vocab;
    p.lanes = reinterpret_cast<const sampling::Lane *>(lanes.data());
    p.tokens = device_tokens.data();
    p.workspace = workspace.data();
    p.logprobs = reinterpret_cast<sampling::TokenLogprob *>(results.data());
    check(cuda::logprobs(p, nullptr), "logprobs");
    const Bytes::Array written = results.read();
    const auto * entries = reinterpret_cast<const sampling::TokenLogprob *>(written.data());
    Ints::Array ids({py::ssize_t{n_rows}, n_places});
    Floats::Array values({py::ssize_t{n_rows}, n_places});
    for (py::ssize_t i = 0; i < ids.size(); i++) {
        ids.mutable_data()[i] = entries[i].token;
        values.mutable_data()[i] = entries[i].logprob;
    }
    return py::make_tuple(ids, values);
}

}  // namespace

void bind_sampling(py::module_ & module) {
    module.def("sample", &sample, py::arg("logits"), py::arg("n_vocab"), py::arg("rows"), py::arg("n_calls") = 1);
    module.def("logprobs", &logprobs, py::arg("logits"), py::arg("n_vocab"), py::arg("tokens"), py::arg("n_top"));
}

}  // namespace orin::kernels
