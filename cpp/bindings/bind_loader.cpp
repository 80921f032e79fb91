// Python's view of the reader of model files: argument conversion, the GIL and signals; no logic.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "../gguf/header.h"
#include "../loader/file_reader.h"
#include "../loader/read_ahead.h"
#include "convert.h"
#include "interruptible.h"

namespace py = pybind11;
using namespace orin;

namespace {

constexpr std::chrono::milliseconds between_signal_checks{50};

// Keeps the memory it lies in, but not its contents: those are the next piece's when that is asked for.
struct FilePiece {
    std::shared_ptr<FileReader> reader;
    FileReader::View view;
};

std::shared_ptr<FileReader> open_reader(const py::object & path, std::vector<gguf::TensorInfo> tensors,
                                        size_t n_threads, size_t piece_bytes) {
    const std::string name = path_bytes(path);
    if (n_threads == 0 || piece_bytes == 0) {
        throw py::value_error("a reader has at least one thread, and pieces of at least one byte");
    }
    return without_gil([&] {
        return std::make_shared<FileReader>(name, std::move(tensors), FileReader::Options{n_threads, piece_bytes});
    });
}

FilePiece next_piece(const std::shared_ptr<FileReader> & reader) {
    for (;;) {
        const auto view = without_gil([&] { return reader->next(between_signal_checks); });
        if (view) {
            return {reader, *view};
        }
        if (reader->is_at_end()) {
            throw py::stop_iteration();
        }
        look_for_signals();
    }
}

}  // namespace

void bind_loader(py::module_ & m) {
    py::class_<FilePiece>(m, "FilePiece", py::buffer_protocol())
        .def_property_readonly("offset", [](const FilePiece & piece) { return piece.view.offset; })
        .def_property_readonly("nbytes", [](const FilePiece & piece) { return piece.view.nbytes; })
        .def_buffer([](const FilePiece & piece) {
            return py::buffer_info(piece.view.data, static_cast<py::ssize_t>(piece.view.nbytes));
        });

    py::class_<FileReader, std::shared_ptr<FileReader>>(m, "FileReader")
        .def(py::init(&open_reader), py::arg("path"), py::arg("tensors") = std::vector<gguf::TensorInfo>(),
             py::kw_only(), py::arg("threads") = FileReader::Options().n_threads,
             py::arg("piece_bytes") = FileReader::Options().piece_bytes)
        .def_property_readonly("size", &FileReader::size)
        .def_property_readonly("direct_bytes", &FileReader::direct_bytes)
        .def_property_readonly("invalid",
                               [](const FileReader & reader) {
                                   py::list result;
                                   for (const auto & [name, offset] : reader.invalid()) {
                                       result.append(py::make_tuple(to_str(name), offset));
                                   }
                                   return result;
                               })
        .def("close", [](FileReader & reader) { without_gil([&] { reader.close(); }); })
        .def("__iter__", [](const std::shared_ptr<FileReader> & reader) { return reader; })
        .def("__next__", &next_piece)
        .def("__enter__", [](const std::shared_ptr<FileReader> & reader) { return reader; })
        .def("__exit__", [](FileReader & reader, const py::args &) { without_gil([&] { reader.close(); }); });

    py::class_<ReadAhead>(m, "ReadAhead")
        .def(py::init<std::vector<std::string>>(), py::arg("paths"))
        .def("close", [](ReadAhead & files) { without_gil([&] { files.close(); }); })
        .def(
            "__enter__", [](ReadAhead & files) -> ReadAhead & { return files; }, py::return_value_policy::reference)
        .def("__exit__", [](ReadAhead & files, const py::args &) { without_gil([&] { files.close(); }); });
}
