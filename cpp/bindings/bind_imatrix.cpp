// Python's view of collecting an importance matrix: argument conversion, the GIL and exceptions; no logic.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>

#include "../quality/imatrix_collector.h"
#include "convert.h"
#include "interruptible.h"

namespace py = pybind11;
using namespace orin;

namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Counts = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;

void add_window(ImatrixCollector & collector, const std::vector<int32_t> & tokens) {
    Interruptible window;
    window.run([&] { collector.add_window(tokens, [&] { return window.goes_on(look_for_signals); }); });
}

void put(ImatrixCollector & collector, const std::string & name, const Floats & sums, const Counts & counts) {
    collector.sums().put(name,
                         {{sums.data(), sums.data() + sums.size()}, {counts.data(), counts.data() + counts.size()}});
}

// {name: (sums [n_counts, n], counts [n_counts])}
py::dict entries(ImatrixCollector & collector) {
    py::dict result;
    for (const auto & [name, found] : collector.sums().all()) {
        const auto n_counts = static_cast<py::ssize_t>(found.counts.size());
        const py::ssize_t n = static_cast<py::ssize_t>(found.sums.size()) / n_counts;
        result[to_str(name)] = py::make_tuple(py::array_t<float>({n_counts, n}, found.sums.data()),
                                              py::array_t<int64_t>(n_counts, found.counts.data()));
    }
    return result;
}

}  // namespace

void bind_imatrix(py::module_ & m) {
    py::class_<ImatrixCollector>(m, "ImatrixCollector")
        .def(py::init([](std::shared_ptr<Model> model, int32_t n_ctx, int32_t threads, bool process_output) {
                 py::gil_scoped_release release;
                 return std::make_unique<ImatrixCollector>(std::move(model),
                                                           ImatrixParams{n_ctx, threads, process_output});
             }),
             py::arg("model"), py::kw_only(), py::arg("n_ctx"), py::arg("threads"), py::arg("process_output"))
        .def("add_window", &add_window, py::arg("tokens"))
        .def("put", &put, py::arg("name"), py::arg("sums"), py::arg("counts"))
        .def("entries", &entries);
}
