// Python's view of cpp/sampling: argument conversion and the GIL; no logic.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "../sampling/logprobs.h"
#include "../sampling/sampling.h"
#include "convert.h"
#include "convert_sampling.h"

namespace py = pybind11;
using namespace orin;

namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Ints = py::array_t<int32_t, py::array::c_style | py::array::forcecast>;
using Words = py::array_t<uint32_t, py::array::c_style | py::array::forcecast>;

sampling::Order order_from(const std::string & name) {
    if (name == "orin" || name == "llama") {
        return name == "orin" ? sampling::Order::orin : sampling::Order::llama;
    }
    throw sampling::RowError("order is '" + name + "': expected orin or llama");
}

int32_t size_of(const py::array & array, const char * name) {
    if (array.ndim() != 1) {
        throw sampling::RowError(std::string(name) + " has " + std::to_string(array.ndim()) +
                                 " dimensions: expected 1");
    }
    return static_cast<int32_t>(array.size());
}

// A row with the arrays that it points to.
struct BoundRow {
    BoundRow(const sampling::Params & params, Floats logits_, Ints recent_, const TokenValues & bias_,
             std::optional<Words> mask_)
        : logits(std::move(logits_)), recent(std::move(recent_)), mask(std::move(mask_)), bias(to_bias(bias_)) {
        row.params = params;
        row.logits = logits.data();
        row.n_vocab = size_of(logits, "logits");
        row.recent = recent.data();
        row.n_recent = size_of(recent, "recent");
        row.bias = bias.data();
        row.n_bias = static_cast<int32_t>(bias.size());
        if (mask) {
            const int32_t expected = (row.n_vocab + 31) / 32;
            if (size_of(*mask, "mask") != expected) {
                throw sampling::RowError("the mask has " + std::to_string(mask->size()) + " words: expected " +
                                         std::to_string(expected));
            }
            row.mask = mask->data();
        }
    }

    Floats logits;
    Ints recent;
    std::optional<Words> mask;
    std::vector<sampling::Bias> bias;
    sampling::Row row;
};

int32_t sample(sampling::Workspace & workspace, const BoundRow & bound, uint64_t position, uint32_t choice) {
    sampling::Row row = bound.row;
    row.position = position;
    row.choice = choice;
    py::gil_scoped_release release;
    return sampling::sample_row(workspace, row);
}

std::pair<Ints, Words> candidates(sampling::Workspace & workspace, const BoundRow & bound) {
    const sampling::Candidates found = sampling::candidates_of(workspace, bound.row);
    return {Ints(found.count, found.ids), Words(found.count, found.weights)};
}

TokenValues logprobs(sampling::Workspace & workspace, const Floats & logits, int32_t n, int32_t chosen) {
    return to_pairs(sampling::top_logprobs(workspace, logits.data(), size_of(logits, "logits"), n, chosen));
}

void translate(std::exception_ptr pointer) {
    try {
        std::rethrow_exception(pointer);
    } catch (const sampling::RowError & error) {
        raise_in_python("UsageError", error.what());
    } catch (const sampling::SamplingError & error) {
        raise_in_python("OrinError", error.what());
    }
}

}  // namespace

void bind_sampling(py::module_ & m) {
    py::register_local_exception_translator(translate);

    py::class_<sampling::Params>(m, "SamplingParams")
        .def(py::init([](float temperature, int32_t top_k, float top_p, float min_p, float repeat_penalty,
                         float frequency_penalty, float presence_penalty, const std::string & order, uint64_t seed) {
                 return sampling::Params{
                     temperature,       top_k, top_p, min_p, repeat_penalty, frequency_penalty, presence_penalty,
                     order_from(order), seed};
             }),
             py::kw_only(), py::arg("temperature"), py::arg("top_k"), py::arg("top_p"), py::arg("min_p"),
             py::arg("repeat_penalty"), py::arg("frequency_penalty"), py::arg("presence_penalty"), py::arg("order"),
             py::arg("seed"));

    py::class_<BoundRow>(m, "SamplingRow")
        .def(py::init<const sampling::Params &, Floats, Ints, const TokenValues &, std::optional<Words>>(),
             // Not an empty array: importing NumPy starts threads, importing this module must not.
             py::arg("params"), py::arg("logits"), py::kw_only(), py::arg("recent") = py::tuple(),
             py::arg("bias") = TokenValues(), py::arg("mask") = py::none());

    py::class_<sampling::Workspace>(m, "SamplingWorkspace")
        .def(py::init<int32_t>(), py::arg("n_vocab"))
        .def("sample", &sample, py::arg("row"), py::kw_only(), py::arg("position") = 0, py::arg("choice") = 0)
        .def("candidates", &candidates, py::arg("row"))
        .def("top_logprobs", &logprobs, py::arg("logits"), py::kw_only(), py::arg("n"), py::arg("chosen"));
}
