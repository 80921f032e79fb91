// Python's view of cpp/engine: argument conversion, the GIL and exceptions; no logic.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>

#include "../engine/model.h"
#include "../engine/runtime.h"
#include "../engine/sampler.h"
#include "../engine/session.h"
#include "../kv/kv_pool.h"
#include "convert.h"
#include "convert_pages.h"
#include "convert_sampling.h"

namespace py = pybind11;
using namespace orin;

namespace {

// Lets Python handle a signal (Ctrl-C) in the middle of a step; true when a handler raised.
bool python_signal_raised() {
    py::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
}

void translate(std::exception_ptr pointer) {
    try {
        std::rethrow_exception(pointer);
    } catch (const Interrupted & error) {
        // A signal handler's own exception (KeyboardInterrupt) is already set and says more.
        if (!PyErr_Occurred()) {
            raise_in_python("OrinError", error.what());
        }
    } catch (const LoadError & error) {
        raise_in_python("ModelFileError", error.what());
    } catch (const EngineError & error) {
        raise_in_python("OrinError", error.what());
    }
}

std::shared_ptr<Model> load_model(const std::string & path, const ModelParams & params,
                                  const std::optional<py::function> & progress) {
    std::optional<py::error_already_set> raised;
    const Model::Progress on_progress = [&](float fraction) {
        py::gil_scoped_acquire gil;
        try {
            if (progress) {
                (*progress)(fraction);
            } else if (PyErr_CheckSignals() != 0) {
                throw py::error_already_set();
            }
        } catch (py::error_already_set & error) {
            raised.emplace(std::move(error));
        }
        return !raised;
    };
    try {
        py::gil_scoped_release release;
        return std::make_shared<Model>(path, params, on_progress);
    } catch (const Interrupted &) {
        if (raised) {
            throw std::move(*raised);
        }
        throw;
    } catch (const LoadError & error) {
        py::dict where;
        where["path"] = to_str(path);
        raise_in_python("ModelFileError", error.what(), where);
        throw py::error_already_set();
    }
}

}  // namespace

void bind_engine(py::module_ & m) {
    py::register_local_exception_translator(translate);

    py::class_<ModelParams>(m, "ModelParams")
        .def(py::init<int32_t, bool, bool>(), py::kw_only(), py::arg("gpu_layers") = -1, py::arg("use_mmap") = true,
             py::arg("vocab_only") = false);

    py::class_<Model, std::shared_ptr<Model>>(m, "Model")
        .def(py::init(&load_model), py::arg("path"), py::arg("params"), py::arg("progress") = py::none())
        .def_property_readonly("n_vocab", &Model::n_vocab)
        .def_property_readonly("device", &Model::device)
        .def_property_readonly("bos", &Model::bos)
        .def_property_readonly("eos", &Model::eos)
        .def_property_readonly("add_bos", &Model::add_bos)
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

    py::class_<Sampler>(m, "Sampler")
        .def(py::init([](const sampling::Params & params, int32_t penalty_window, const TokenValues & logit_bias) {
                 return std::make_unique<Sampler>(params, penalty_window, to_bias(logit_bias));
             }),
             py::arg("params"), py::kw_only(), py::arg("penalty_window"), py::arg("logit_bias"))
        .def("see", &Sampler::see, py::arg("token"));

    py::class_<SessionParams>(m, "SessionParams")
        .def(py::init([](int32_t n_ctx, int32_t chunk_size, int32_t threads, const std::string & kv_type, bool rope,
                         bool paged, bool attention, int32_t page_size, bool prefix_cache) {
                 const Paging paging = !paged ? Paging::off : attention ? Paging::on : Paging::cells_only;
                 return SessionParams{n_ctx, chunk_size, threads, kv_type, rope, paging, page_size, prefix_cache};
             }),
             py::kw_only(), py::arg("n_ctx"), py::arg("chunk_size"), py::arg("threads"), py::arg("kv_type"),
             py::arg("rope"), py::arg("paged"), py::arg("attention"), py::arg("page_size"), py::arg("prefix_cache"));

    py::class_<Session>(m, "Session")
        .def(py::init([](std::shared_ptr<Model> model, const SessionParams & params) {
                 py::gil_scoped_release release;
                 return std::make_unique<Session>(std::move(model), params, python_signal_raised);
             }),
             py::arg("model"), py::arg("params"))
        .def_property_readonly("n_graphs_built", &Session::n_graphs_built)
        .def("kv_counters",
             [](const Session & session) -> py::object {
                 const KvPool * pool = session.kv_pool();
                 if (pool == nullptr) {
                     return py::none();
                 }
                 py::dict result = to_dict(pool->pages().counters(), pool->pages().page_size());
                 result["page_size"] = pool->pages().page_size();
                 result["page_bytes"] = pool->page_bytes();
                 result["committed_bytes"] = pool->committed_bytes();
                 return result;
             })
        .def_property_readonly("n_tokens", [](const Session & session) { return session.tokens().size(); })
        .def("prefill", &Session::prefill, py::arg("prompt"), py::call_guard<py::gil_scoped_release>())
        .def("decode", &Session::decode, py::arg("token"), py::call_guard<py::gil_scoped_release>())
        .def("forget", &Session::forget, py::call_guard<py::gil_scoped_release>())
        .def("sample", &Session::sample, py::arg("sampler"), py::call_guard<py::gil_scoped_release>())
        .def("logits",
             [](const Session & session) { return py::array_t<float>(session.model().n_vocab(), session.logits()); })
        .def(
            "top_logprobs",
            [](Session & session, int32_t n, int32_t chosen) { return to_pairs(session.top_logprobs(n, chosen)); },
            py::arg("n"), py::arg("chosen"))
        .def("rope_counters", [](const Session & session) { return to_dict(session.rope_counters()); });
}
