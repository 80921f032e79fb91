// Kernels as Python functions on NumPy arrays. The same file is compiled with CUDA, and for the emulation of
// tests/simt.
#include <pybind11/pybind11.h>

#include "affine.h"
#include "bind_kernels.h"
#include "device_array.h"

#ifdef ORIN_EMULATED
#include "../simt/counters.h"
#include "../simt/grid.h"
#endif

namespace py = pybind11;

namespace {

using orin::kernels::check;
using orin::kernels::DeviceArray;

// The order in which emulated threads take turns.
void set_seed(uint64_t seed) {
#ifdef ORIN_EMULATED
    simt::set_seed(seed);
#else
    (void)seed;  // a GPU has its own
#endif
}

// What the emulation counted since the last call, {"name": n}; a GPU counts nothing.
std::string emulated_counters() {
#ifdef ORIN_EMULATED
    std::string counted = simt::counters_json();
    simt::reset_counters();
    return counted;
#else
    return "";
#endif
}

py::array affine(const py::array_t<float> & x, float scale, float bias) {
    DeviceArray<float> values(x);
    check(orin::cuda::affine({values.data(), values.data(), values.size(), scale, bias}, nullptr), "affine");
    return values.read();
}

}  // namespace

PYBIND11_MODULE(orin_kernels, module) {
    module.def("set_seed", &set_seed, py::arg("seed"));
    module.def("emulated_counters", &emulated_counters);
    orin::kernels::bind_attention(module);
    orin::kernels::bind_matrix_product(module);
    orin::kernels::bind_memory_range(module);
    orin::kernels::bind_feed(module);
    orin::kernels::bind_matrix_vector(module);
    orin::kernels::bind_prepare_rows(module);
    orin::kernels::bind_rope_store(module);
    orin::kernels::bind_sampling(module);
    orin::kernels::bind_time_attention(module);
    orin::kernels::bind_time_matrix(module);
    orin::kernels::bind_time_rows(module);
    module.def("affine", &affine, py::arg("x"), py::arg("scale"), py::arg("bias"));
}
