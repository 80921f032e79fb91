// The quantizer, as Python sees it: argument conversion, the GIL and exceptions; no logic.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "../engine/runtime.h"
#include "../quantize/quantize.h"
#include "../quantize/type_mix.h"
#include "convert.h"
#include "interruptible.h"
#include "without_gil.h"

namespace py = pybind11;
using namespace orin;

namespace {

using Weights = py::array_t<float, py::array::c_style | py::array::forcecast>;

// The parameters, and the arrays that they point to.
struct Job {
    QuantizeParams params;
    std::vector<Weights> kept;
};

template <typename Value>
std::vector<std::pair<std::string, Value>> pairs(const py::dict & from) {
    std::vector<std::pair<std::string, Value>> result;
    for (const auto & [key, value] : from) {
        result.emplace_back(py::cast<std::string>(key), py::cast<Value>(value));
    }
    return result;
}

Job make_job(int32_t file_type, bool only_copy, bool pure, bool allow_requantize, int32_t threads, size_t buffer_bytes,
             const std::optional<std::string> & output_type, const std::optional<std::string> & embedding_type,
             const std::vector<std::pair<std::string, std::string>> & type_patterns, const py::dict & importance,
             const py::dict & text_metadata, const py::dict & number_metadata) {
    Job job;
    job.params.file_type = file_type;
    job.params.only_copy = only_copy;
    job.params.pure = pure;
    job.params.allow_requantize = allow_requantize;
    job.params.threads = threads;
    job.params.buffer_bytes = buffer_bytes;
    job.params.output_type = output_type;
    job.params.embedding_type = embedding_type;
    job.params.type_patterns = type_patterns;
    for (const auto & [name, weights] : importance) {
        job.kept.push_back(py::cast<Weights>(weights));
        const Weights & array = job.kept.back();
        job.params.importance.push_back({py::cast<std::string>(name), array.data(), static_cast<size_t>(array.size())});
    }
    job.params.text_metadata = pairs<std::string>(text_metadata);
    job.params.number_metadata = pairs<int64_t>(number_metadata);
    return job;
}

// Runs work on the file at `source`, with its errors as Python has them.
template <typename Work>
auto on(const std::string & source, const Work & work) -> decltype(work()) {
    try {
        return work();
    } catch (const LoadError & error) {
        raise_model_file_error(error.what(), source);
    } catch (const std::invalid_argument & error) {
        raise_in_python("UsageError", error.what());
        throw py::error_already_set();
    }
}

std::vector<QuantizedTensor> quantize_model(const std::string & source, const std::string & out, const Job & job,
                                            const py::function & progress) {
    Interruptible work;
    const QuantizeProgress on_progress = [&](uint64_t bytes_done) {
        return work.goes_on([&] { progress(bytes_done); });
    };
    return on(source, [&] { return work.run([&] { return quantize(source, out, job.params, on_progress); }); });
}

}  // namespace

void bind_quantize(py::module_ & m) {
    py::class_<Job>(m, "QuantizeParams")
        .def(py::init(&make_job), py::kw_only(), py::arg("file_type"), py::arg("only_copy") = false,
             py::arg("pure") = false, py::arg("allow_requantize") = false, py::arg("threads"), py::arg("buffer_bytes"),
             py::arg("output_type") = py::none(), py::arg("embedding_type") = py::none(),
             py::arg("type_patterns") = py::list(), py::arg("importance") = py::dict(),
             py::arg("text_metadata") = py::dict(), py::arg("number_metadata") = py::dict());

    py::class_<QuantizedTensor>(m, "QuantizedTensor")
        .def_property_readonly("name", [](const QuantizedTensor & t) { return to_str(t.name); })
        .def_readonly("type", &QuantizedTensor::type)
        .def_readonly("new_type", &QuantizedTensor::new_type)
        .def_readonly("wanted_type", &QuantizedTensor::wanted_type)
        .def_readonly("n_inputs", &QuantizedTensor::n_inputs)
        .def_readonly("n_matrices", &QuantizedTensor::n_matrices)
        .def_readonly("n_weights", &QuantizedTensor::n_weights)
        .def_readonly("bytes", &QuantizedTensor::bytes)
        .def_readonly("new_bytes", &QuantizedTensor::new_bytes);

    m.def(
        "plan_quantization",
        [](const std::string & source, const Job & job) {
            return on(source, [&] { return without_gil([&] { return plan_quantization(source, job.params); }); });
        },
        py::arg("source"), py::arg("params"));
    m.def("quantize", &quantize_model, py::arg("source"), py::arg("out"), py::arg("params"), py::arg("progress"));
    m.def(
        "needs_importance", [](const std::string & type) { return on("", [&] { return needs_importance(type); }); },
        py::arg("type"));
    m.def(
        "block_elements", [](const std::string & type) { return on("", [&] { return block_elements(type); }); },
        py::arg("type"));

    m.def(
        "matrix_types",
        [](const std::string & architecture, uint32_t n_layer, uint32_t n_embd, uint32_t n_ff, uint32_t n_head,
           uint32_t n_head_kv, uint32_t head_dim, int32_t file_type,
           const std::vector<std::tuple<std::string, int64_t, int64_t>> & matrices) {
            std::vector<Matrix> shapes;
            for (const auto & [name, n_inputs, n_outputs] : matrices) {
                shapes.push_back({name, n_inputs, n_outputs});
            }
            return matrix_types({architecture, n_layer, n_embd, n_ff, n_head, n_head_kv, head_dim}, file_type, shapes);
        },
        py::kw_only(), py::arg("architecture"), py::arg("n_layer"), py::arg("n_embd"), py::arg("n_ff"),
        py::arg("n_head"), py::arg("n_head_kv"), py::arg("head_dim"), py::arg("file_type"), py::arg("matrices"));
}
