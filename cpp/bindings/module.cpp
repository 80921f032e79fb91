// The extension module orin_llm._native: what each part binds is in a file of its own.
#include <pybind11/pybind11.h>

#include "attention_probe.h"
#include "build_info.h"

namespace py = pybind11;

void bind_engine(py::module_ & m);
void bind_gguf(py::module_ & m);
void bind_imatrix(py::module_ & m);
void bind_loader(py::module_ & m);
void bind_marks(py::module_ & m);
void bind_model(py::module_ & m);
void bind_pages(py::module_ & m);
void bind_quality(py::module_ & m);
void bind_quantize(py::module_ & m);
void bind_sampling(py::module_ & m);
void bind_scheduler(py::module_ & m);
void bind_testing(py::module_ & m);

PYBIND11_MODULE(_native, m) {
    m.doc() = "The native core of orin_llm.";
    m.def(
        "build_info", [] { return py::module_::import("json").attr("loads")(orin::build_info_json); },
        "What was built, from what and why, as a dict.");
    bind_gguf(m);
    bind_loader(m);
    bind_sampling(m);
    bind_model(m);
    bind_quantize(m);
    bind_engine(m);
    bind_marks(m);
    bind_imatrix(m);
    bind_pages(m);
    bind_quality(m);
    bind_scheduler(m);
    orin::bind_attention_probe(m);
    py::module_ testing = m.def_submodule("testing", "Parts on their own, for tests.");
    bind_testing(testing);
}
