// Python's view of a loaded model: argument conversion, the GIL and exceptions; no logic.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>

#include "../engine/gpu.h"
#include "../engine/model.h"
#include "../engine/runtime.h"
#include "../engine/table_places.h"
#include "convert.h"
#include "interruptible.h"

namespace py = pybind11;
using namespace orin;

namespace {

py::object place_to_python(const std::optional<TablePlace> & place) {
    if (!place) {
        return py::none();
    }
    using namespace pybind11::literals;
    return py::dict("tensor"_a = to_str(place->tensor), "device"_a = place->device,
                    "is_repacked"_a = place->is_repacked);
}

py::dict table_places_to_python(const std::string & path, const ModelParams & params) {
    TablePlaces places;
    try {
        places = without_gil([&] { return table_places(path, params); });
    } catch (const LoadError & error) {
        raise_model_file_error(error.what(), path);
    }
    using namespace pybind11::literals;
    return py::dict("embedding"_a = place_to_python(places.embedding), "output"_a = place_to_python(places.output),
                    "is_one_table"_a = places.is_one_table);
}

std::shared_ptr<Model> load_model(const std::string & path, const ModelParams & params,
                                  const std::optional<py::function> & progress) {
    Interruptible load;
    const Model::Progress on_progress = [&](float fraction) {
        return load.goes_on([&] {
            if (progress) {
                (*progress)(fraction);
            } else {
                look_for_signals();
            }
        });
    };
    try {
        return load.run([&] { return std::make_shared<Model>(path, params, on_progress); });
    } catch (const LoadError & error) {
        raise_model_file_error(error.what(), path);
    }
}

}  // namespace

void bind_model(py::module_ & m) {
    py::class_<ModelParams>(m, "ModelParams")
        .def(py::init([](int32_t gpu_layers, bool use_mmap, bool vocab_only, bool check_tensors,
                         const std::optional<std::pair<std::string, int64_t>> & table_on_gpu) {
                 ModelParams params{gpu_layers, use_mmap, vocab_only, check_tensors, std::nullopt};
                 if (table_on_gpu) {
                     params.table_on_gpu = TokenTable{table_on_gpu->first, table_on_gpu->second};
                 }
                 return params;
             }),
             py::kw_only(), py::arg("gpu_layers") = -1, py::arg("use_mmap") = true, py::arg("vocab_only") = false,
             py::arg("check_tensors") = false, py::arg("table_on_gpu") = py::none());

    m.def("gpu_memory", []() -> py::object {
        std::optional<GpuMemory> memory;
        {
            py::gil_scoped_release release;
            ggml_backend_dev_t gpu = first_gpu();
            memory = gpu == nullptr ? std::nullopt : gpu_memory(gpu);
        }
        if (!memory) {
            return py::none();
        }
        using namespace pybind11::literals;
        return py::dict("name"_a = memory->name, "free_bytes"_a = memory->free_bytes,
                        "total_bytes"_a = memory->total_bytes, "is_integrated"_a = memory->is_integrated);
    });

    m.def("table_places", &table_places_to_python, py::arg("path"), py::arg("params"));

    py::class_<Model, std::shared_ptr<Model>>(m, "Model")
        .def(py::init(&load_model), py::arg("path"), py::arg("params"), py::arg("progress") = py::none())
        .def_property_readonly("n_vocab", &Model::n_vocab)
        .def_property_readonly("device", &Model::device)
        .def_property_readonly("bos", &Model::bos)
        .def_property_readonly("eos", &Model::eos)
        .def_property_readonly("add_bos", &Model::add_bos)
        .def_property_readonly("load_report",
                               [](const Model & model) {
                                   using namespace pybind11::literals;
                                   const LoadReport & report = model.load_report();
                                   return py::dict("read_ms"_a = report.read_ms, "upload_ms"_a = report.upload_ms,
                                                   "bytes"_a = report.bytes, "direct_bytes"_a = report.direct_bytes);
                               })
        .def("eog_tokens", &Model::eog_tokens)
        .def("special_tokens",
             [](const Model & model) {
                 py::dict result;
                 for (const auto & [text, token] : model.special_tokens()) {
                     result[py::bytes(text)] = token;
                 }
                 return result;
             })
        .def(
            "tokenize",
            [](const Model & model, const py::bytes & text, bool add_special, bool parse_special) {
                const auto view = static_cast<std::string_view>(text);
                py::gil_scoped_release release;
                return model.tokenize(view, add_special, parse_special);
            },
            py::arg("text"), py::kw_only(), py::arg("add_special"), py::arg("parse_special"))
        .def(
            "token_bytes",
            [](const Model & model, int32_t token, bool special) {
                return py::bytes(model.token_bytes(token, special));
            },
            py::arg("token"), py::kw_only(), py::arg("special"))
        .def(
            "detokenize",
            [](const Model & model, const std::vector<int32_t> & tokens, bool special) {
                return py::bytes(model.detokenize(tokens, special));
            },
            py::arg("tokens"), py::kw_only(), py::arg("special"));
}
