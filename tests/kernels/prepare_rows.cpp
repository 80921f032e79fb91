#include "prepare_rows.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "bind_kernels.h"
#include "device_array.h"

namespace py = pybind11;

namespace orin::kernels {
namespace {

using Floats = DeviceArray<float>;
using Bytes = DeviceArray<uint8_t>;

// Memory that nobody has written to, [n_rows, n]; as floats it is NaN.
template <typename Value>
typename DeviceArray<Value>::Array garbage(py::ssize_t n_rows, py::ssize_t n) {
    typename DeviceArray<Value>::Array result(std::vector<py::ssize_t>{n_rows, n});
    std::memset(result.mutable_data(), 0xFF, static_cast<size_t>(result.nbytes()));
    return result;
}

// An array that may be missing.
class OptionalFloats {
   public:
    explicit OptionalFloats(const std::optional<Floats::Array> & array)
        : is_there_(array), memory_(array ? *array : garbage<float>(1, 4)) {}

    float * data() { return is_there_ ? memory_.data() : nullptr; }
    Floats & memory() { return memory_; }

   private:
    bool is_there_;
    Floats memory_;
};

// x and residual: [n_tokens, stride]. sum: "", "own", or whose memory it takes: "x", "residual". format: of rows, or -1
// for none. prefetched: bytes, taken as two ranges. offset: of x, in floats.
// Returns sum, normed, rows; with garbage where nothing was to be written.
py::tuple prepare_rows(const Floats::Array & x, int32_t n_values, const std::optional<Floats::Array> & residual,
                       const std::optional<Floats::Array> & post_weight, float post_eps,
                       const std::optional<Floats::Array> & weight, float eps, const std::string & sum, bool normed,
                       int32_t format, const Bytes::Array & prefetched, int64_t offset) {
    const py::ssize_t n_tokens = x.shape(0);
    const auto row_format = static_cast<cuda::RowFormat>(std::max(format, 0));
    const auto row_bytes = static_cast<py::ssize_t>(cuda::activation_row_bytes(row_format, n_values));
    Floats x_memory(x);
    OptionalFloats residuals(residual);
    OptionalFloats post_weights(post_weight);
    OptionalFloats weights(weight);
    Floats own_sums(garbage<float>(n_tokens, n_values));
    Floats normed_memory(garbage<float>(n_tokens, n_values));
    Bytes rows(garbage<uint8_t>(n_tokens, row_bytes));
    Bytes next_weights(prefetched);
    Floats & sums = sum == "x" ? x_memory : sum == "residual" ? residuals.memory() : own_sums;

    cuda::PrepareRowsParams p{};
    p.n_tokens = static_cast<int32_t>(n_tokens);
    p.n_values = n_values;
    p.x = x_memory.data() + offset;
    p.x_stride = x.shape(1);
    p.residual = residuals.data();
    p.residual_stride = residual ? residual->shape(1) : 0;
    p.post_weight = post_weights.data();
    p.post_eps = post_eps;
    p.weight = weights.data();
    p.eps = eps;
    p.sum = sum.empty() ? nullptr : sums.data();
    p.normed = normed ? normed_memory.data() : nullptr;
    p.rows = {row_format, n_values, format < 0 ? nullptr : rows.data()};
    const int64_t first = prefetched.size() / 3;
    p.prefetch.ranges[0] = {next_weights.data(), first};
    p.prefetch.ranges[2] = {next_weights.data() + first, prefetched.size() - first};
    check(cuda::prepare_rows(p, nullptr), "prepare_rows");
    return py::make_tuple(sums.read(), normed_memory.read(), rows.read());
}

}  // namespace

void bind_prepare_rows(py::module_ & module) {
    module.def("prepare_rows", &prepare_rows, py::arg("x"), py::arg("n_values"), py::arg("residual"),
               py::arg("post_weight"), py::arg("post_eps"), py::arg("weight"), py::arg("eps"), py::arg("sum"),
               py::arg("normed"), py::arg("format"), py::arg("prefetched"), py::arg("offset"));
}

}  // namespace orin::kernels
