// Conversions that several bindings share.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

#include "../hooks/rope_store_hook.h"
#include "../matrix/choices.h"
#include "../matrix/matrix_report.h"
#include "../rope/rope_counters.h"

namespace orin {

// Bytes of any encoding: what is not UTF-8 survives as lone surrogates, as in Python's own paths.
inline pybind11::str to_str(std::string_view bytes) {
    PyObject * text = PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
    if (text == nullptr) {
        throw pybind11::error_already_set();
    }
    return pybind11::reinterpret_steal<pybind11::str>(text);
}

// Sets an exception of orin_llm.errors as Python's current one; `attributes` are its keyword arguments.
inline void raise_in_python(const char * name, std::string_view message, const pybind11::dict & attributes = {}) {
    const pybind11::object type = pybind11::module_::import("orin_llm.errors").attr(name);
    PyErr_SetObject(type.ptr(), type(to_str(message), **attributes).ptr());
}

// Throws ModelFileError of the file in Python.
[[noreturn]] inline void raise_model_file_error(std::string_view message, std::string_view path) {
    pybind11::dict where;
    where["path"] = to_str(path);
    raise_in_python("ModelFileError", message, where);
    throw pybind11::error_already_set();
}

// A path as Python's own functions take one (str, bytes, os.PathLike), in the file system's encoding.
inline std::string path_bytes(const pybind11::object & path) {
    PyObject * encoded = nullptr;
    if (!PyUnicode_FSConverter(path.ptr(), &encoded)) {
        throw pybind11::error_already_set();
    }
    return pybind11::reinterpret_steal<pybind11::bytes>(encoded);
}

inline pybind11::dict to_dict(const RopeCounters & counters) {
    pybind11::dict result;
    result["lookups"] = counters.lookups;
    result["fallbacks"] = counters.fallbacks;
    result["out_of_bounds"] = counters.out_of_bounds;
    return result;
}

inline pybind11::dict to_dict(const RopeStoreReport & report) {
    pybind11::dict result;
    result["n_layers"] = report.n_layers;
    result["n_stock"] = report.n_stock;
    result["reason"] = report.reason;
    return result;
}

inline pybind11::dict to_dict(const MatrixReport & report) {
    pybind11::dict result;
    result["n_served"] = report.n_served;
    result["n_stock"] = report.n_stock;
    result["n_cublas"] = report.n_cublas;
    result["reason"] = report.reason;
    result["nodes"] = pybind11::cast(report.nodes);
    return result;
}

inline pybind11::dict to_dict(const ChoiceRange & range) {
    pybind11::dict result;
    result["name"] = range.name;
    result["least"] = range.least;
    result["most"] = range.most;
    result["values"] = pybind11::cast(range.values);
    return result;
}

}  // namespace orin
