// _native.PagedKv: the page pool alone.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <limits>
#include <memory>
#include <tuple>

#include "../pages/paged_kv.h"
#include "convert_pages.h"

namespace py = pybind11;
using namespace orin;

namespace {

// An array of another type is taken only where no digit can be lost.
using Tokens = py::array_t<int32_t, py::array::c_style>;

int32_t length(const Tokens & tokens) {
    if (tokens.ndim() != 1 || tokens.size() > std::numeric_limits<int32_t>::max()) {
        throw py::value_error("tokens: expected one dimension of at most 2^31 - 1");
    }
    return static_cast<int32_t>(tokens.size());
}

std::tuple<int32_t, int32_t> match_prefix(const PagedKv & pages, const Tokens & tokens) {
    const PrefixMatch match = pages.match_prefix(tokens.data(), length(tokens));
    return {match.n_tokens, match.n_idle_pages};
}

py::array_t<int32_t> block_table(const PagedKv & pages, SequenceId sequence) {
    const std::vector<PageId> & table = pages.block_table(sequence);
    return py::array_t<int32_t>(static_cast<py::ssize_t>(table.size()), table.data());
}

}  // namespace

void bind_pages(py::module_ & m) {
    py::class_<PagedKv>(m, "PagedKv")
        .def(py::init([](int32_t n_pages, int32_t page_size, int32_t max_sequences, int32_t max_tokens, int32_t window,
                         bool prefix_cache, uint64_t hash_seed, int32_t hash_bits) {
                 return std::make_unique<PagedKv>(PagedKvConfig{n_pages, page_size, max_sequences, max_tokens, window,
                                                                prefix_cache, hash_seed, hash_bits});
             }),
             py::kw_only(), py::arg("n_pages"), py::arg("page_size") = PagedKvConfig{}.page_size,
             py::arg("max_sequences") = PagedKvConfig{}.max_sequences, py::arg("max_tokens"), py::arg("window") = 0,
             py::arg("prefix_cache") = true, py::arg("hash_seed") = 0, py::arg("hash_bits") = 64)
        .def("open", &PagedKv::open)
        .def("close", &PagedKv::close, py::arg("sequence"))
        .def("fork", &PagedKv::fork, py::arg("sequence"))
        .def("match_prefix", &match_prefix, py::arg("tokens"))
        .def(
            "adopt_prefix",
            [](PagedKv & pages, SequenceId sequence, const Tokens & tokens) {
                return pages.adopt_prefix(sequence, tokens.data(), length(tokens));
            },
            py::arg("sequence"), py::arg("tokens"))
        .def(
            "append",
            [](PagedKv & pages, SequenceId sequence, const Tokens & tokens) {
                return pages.append(sequence, tokens.data(), length(tokens));
            },
            py::arg("sequence"), py::arg("tokens"))
        .def("pages_needed", &PagedKv::pages_needed, py::arg("sequence"), py::arg("n_tokens"))
        .def("commit", py::overload_cast<int32_t>(&PagedKv::commit), py::arg("sequence"))
        .def("truncate", &PagedKv::truncate, py::arg("sequence"), py::arg("n_keep"))
        .def("n_tokens", &PagedKv::n_tokens, py::arg("sequence"))
        .def("n_committed", &PagedKv::n_committed, py::arg("sequence"))
        .def("block_table", &block_table, py::arg("sequence"))
        .def("cell", &PagedKv::cell, py::arg("sequence"), py::arg("position"))
        .def("pending_copies", [](const PagedKv & pages) { return to_tuples(pages.pending_copies()); })
        .def("clear_copies", &PagedKv::clear_copies)
        .def_property_readonly("page_size", &PagedKv::page_size)
        .def_property_readonly("available_pages", &PagedKv::available_pages)
        .def_property_readonly("committed_pages", &PagedKv::committed_pages)
        .def("set_budget", &PagedKv::set_budget, py::arg("n_pages"))
        .def("drop_cached", &PagedKv::drop_cached)
        .def("counters", [](const PagedKv & pages) { return to_dict(pages.counters(), pages.page_size()); })
        .def("check", &PagedKv::check)
        .def_property_readonly_static("scratch_page", [](const py::object &) { return PagedKv::scratch_page; });
}
