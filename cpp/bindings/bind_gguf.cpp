// The preflight of model files, as Python sees it.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "../gguf/error.h"
#include "../gguf/preflight.h"
#include "convert.h"

namespace py = pybind11;

namespace {

using orin::to_str;
using orin::gguf::Entry;
using orin::gguf::Header;
using orin::gguf::ModelFileError;
using orin::gguf::TensorInfo;
using orin::gguf::Value;
using orin::gguf::ValueType;

py::object to_object(const Value & value, uint64_t i) {
    switch (value.type()) {
        case ValueType::string:
            return to_str(value.as_string(i));
        case ValueType::boolean:
            return py::bool_(value.as_unsigned(i) != 0);
        case ValueType::f32:
        case ValueType::f64:
            return py::float_(value.as_double(i));
        case ValueType::u64:
            return py::int_(value.as_unsigned(i));
        default:
            return py::int_(value.as_signed(i));
    }
}

py::object to_object(const Value & value) {
    if (!value.is_array()) {
        return to_object(value, 0);
    }
    py::list list(value.count());
    for (uint64_t i = 0; i < value.count(); ++i) {
        list[i] = to_object(value, i);
    }
    return list;
}

// Python's view of a header; a vocabulary has hundreds of thousands of strings, so it is made when first asked for.
class GgufHeader {
   public:
    explicit GgufHeader(Header header) : header_(std::move(header)) {}

    const Header & header() const { return header_; }

    const py::dict & metadata() {
        if (!metadata_) {
            metadata_ = py::dict();
            for (const Entry & entry : header_.metadata) {
                metadata_[to_str(entry.key)] = to_object(entry.value);
            }
        }
        return metadata_;
    }

    py::dict value_types() const {
        py::dict types;
        for (const Entry & entry : header_.metadata) {
            types[to_str(entry.key)] = static_cast<uint32_t>(entry.value.type());
        }
        return types;
    }

    const py::list & tensors() {
        if (!tensors_) {
            tensors_ = py::list();
            for (const TensorInfo & tensor : header_.tensors) {
                tensors_.append(tensor);
            }
        }
        return tensors_;
    }

   private:
    Header header_;
    py::dict metadata_ = py::reinterpret_borrow<py::dict>(nullptr);
    py::list tensors_ = py::reinterpret_borrow<py::list>(nullptr);
};

template <Header (*check)(const std::string &)>
GgufHeader checked(const py::object & path) {
    const std::string bytes = orin::path_bytes(path);
    py::gil_scoped_release release;
    return GgufHeader(check(bytes));
}

void raise_in_python(const ModelFileError & error) {
    py::dict where;
    where["path"] = to_str(error.path());
    where["field"] = to_str(error.field());
    where["offset"] = error.offset() ? py::object(py::int_(*error.offset())) : py::object(py::none());
    orin::raise_in_python("ModelFileError", error.what(), where);
}

}  // namespace

void bind_gguf(py::module_ & m) {
    py::register_local_exception_translator([](std::exception_ptr pointer) {
        try {
            if (pointer) {
                std::rethrow_exception(pointer);
            }
        } catch (const ModelFileError & error) {
            raise_in_python(error);
        }
    });

    py::class_<TensorInfo>(m, "TensorInfo")
        .def_property_readonly("name", [](const TensorInfo & t) { return to_str(t.name); })
        .def_property_readonly("type", [](const TensorInfo & t) { return t.type->name; })
        .def_property_readonly("type_id", [](const TensorInfo & t) { return t.type->id; })
        .def_property_readonly("shape", [](const TensorInfo & t) { return py::tuple(py::cast(t.shape)); })
        .def_readonly("offset", &TensorInfo::offset)
        .def_readonly("nbytes", &TensorInfo::nbytes)
        .def_readonly("part", &TensorInfo::part);

    py::class_<GgufHeader>(m, "GgufHeader")
        .def_property_readonly("version", [](const GgufHeader & h) { return h.header().version; })
        .def_property_readonly("alignment", [](const GgufHeader & h) { return h.header().alignment; })
        .def_property_readonly("data_offset", [](const GgufHeader & h) { return h.header().data_offset; })
        .def_property_readonly("file_bytes", [](const GgufHeader & h) { return h.header().file_bytes; })
        .def_property_readonly("n_parts", [](const GgufHeader & h) { return h.header().n_parts; })
        .def_property_readonly("metadata", &GgufHeader::metadata)
        .def(
            "value",
            [](const GgufHeader & h, const std::string & key) -> py::object {
                const Value * const value = h.header().find(key);
                return value == nullptr ? py::none() : to_object(*value);
            },
            py::arg("key"))
        .def_property_readonly("value_types", &GgufHeader::value_types)
        .def_property_readonly("tensors", &GgufHeader::tensors);

    m.def("check_gguf", &checked<orin::gguf::check_file>, py::arg("path"));
    m.def("check_gguf_container", &checked<orin::gguf::check_container>, py::arg("path"));
}
