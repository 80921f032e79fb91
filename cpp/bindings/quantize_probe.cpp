#include "quantize_probe.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "../quantize/fast_blocks.h"
#include "ggml.h"

namespace py = pybind11;

// What --wrap has replaced.
extern "C" {
size_t __real_quantize_q4_K(const float *, void *, int64_t, int64_t, const float *);
size_t __real_quantize_q5_K(const float *, void *, int64_t, int64_t, const float *);
size_t __real_quantize_q6_K(const float *, void *, int64_t, int64_t, const float *);
size_t __real_quantize_iq4_nl(const float *, void *, int64_t, int64_t, const float *);
size_t __real_quantize_iq4_xs(const float *, void *, int64_t, int64_t, const float *);
}

namespace orin {
namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;

struct Quantizer {
    const char * name;
    ggml_type type;
    void (*ours)(const float *, void *, int64_t, int64_t, const float *);
    size_t (*stock)(const float *, void *, int64_t, int64_t, const float *);
};

const Quantizer quantizers[] = {
    {"q4_K", GGML_TYPE_Q4_K, quantize_q4_k, __real_quantize_q4_K},
    {"q5_K", GGML_TYPE_Q5_K, quantize_q5_k, __real_quantize_q5_K},
    {"q6_K", GGML_TYPE_Q6_K, quantize_q6_k, __real_quantize_q6_K},
    {"iq4_nl", GGML_TYPE_IQ4_NL, orin::quantize_iq4_nl, __real_quantize_iq4_nl},
    {"iq4_xs", GGML_TYPE_IQ4_XS, orin::quantize_iq4_xs, __real_quantize_iq4_xs},
};

// x: [n_rows, n]; importance: [n]. Returns [n_rows, bytes of a row].
py::array_t<uint8_t> quantize_rows(const std::string & type, const Floats & x, const std::optional<Floats> & importance,
                                   bool stock) {
    for (const Quantizer & quantizer : quantizers) {
        if (type != quantizer.name) {
            continue;
        }
        if (x.ndim() != 2 || x.shape(1) % ggml_blck_size(quantizer.type) != 0 ||
            (importance && importance->size() != x.shape(1))) {
            throw py::value_error("expected rows of whole blocks, and as many values of importance as in a row");
        }
        py::array_t<uint8_t> result({x.shape(0), py::ssize_t(ggml_row_size(quantizer.type, x.shape(1)))});
        const float * weights = importance ? importance->data() : nullptr;
        if (stock) {
            quantizer.stock(x.data(), result.mutable_data(), x.shape(0), x.shape(1), weights);
        } else {
            quantizer.ours(x.data(), result.mutable_data(), x.shape(0), x.shape(1), weights);
        }
        return result;
    }
    throw py::value_error("no quantizer of ours for " + type);
}

}  // namespace

void bind_quantize_probe(py::module_ & m) {
    m.def("quantize_rows", &quantize_rows, py::arg("type"), py::arg("x"), py::arg("importance") = py::none(),
          py::kw_only(), py::arg("stock"));
}

}  // namespace orin
