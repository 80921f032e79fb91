// Times of products of weights with activations.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bind_kernels.h"
#include "device_array.h"
#include "matrix_product.h"
#include "matrix_vector.h"
#include "multiprocessors.h"
#include "timing.h"

namespace py = pybind11;

namespace orin::kernels {
namespace {

using Bytes = py::array_t<uint8_t, py::array::c_style | py::array::forcecast>;

// Weights of one launch's matrices, in as many copies as are needed to be larger than any cache.
class MatrixTimer {
   public:
    // matrices: type, rows, and some rows of weights that are there over and over [n, row_bytes]. With `gated`, results
    // of two matrices go through silu to rows for the next product.
    MatrixTimer(const std::vector<std::tuple<int, int32_t, Bytes>> & matrices, int32_t n_values, bool gated,
                size_t cache_bytes)
        : n_values_(n_values), gated_(gated) {
        size_t bytes = 0;
        for (const auto & [type, n_rows, pattern] : matrices) {
            bytes += size_t(n_rows) * size_t(pattern.shape(1));
        }
        n_copies_ = std::max<size_t>(2, (cache_bytes + bytes - 1) / bytes);
        for (const auto & [type, n_rows, pattern] : matrices) {
            cuda::WeightMatrix matrix{};
            matrix.type = static_cast<cuda::WeightType>(type);
            matrix.row_bytes = pattern.shape(1);
            matrix.n_rows = n_rows;
            matrices_.push_back(matrix);
            auto & copies = weights_.emplace_back();
            for (size_t copy = 0; copy < n_copies_; copy++) {
                copies.emplace_back(size_t(n_rows) * size_t(matrix.row_bytes));
                copies.back().fill(pattern.data(), size_t(pattern.nbytes()));
            }
        }
    }

    struct Found {
        std::vector<double> times_us;  // of a launch
        int32_t rows_per_warp;
        int32_t n_splits;
    };

    // `row`: one of activations, in the format that the form reads. rows_per_warp and n_splits 0: the kernel's own
    // choice. Nothing where the kernel does not do this.
    std::optional<Found> time(const std::string & form, int format, const Bytes & row, int32_t n_tokens,
                              int32_t rows_per_warp, int32_t n_splits, int repetitions) const {
        const bool is_product = form == "product";
        if (!is_product && form != "vector") {
            throw py::value_error("form: expected vector or product");
        }
        cuda::MatrixParams p{};
        p.input = {static_cast<cuda::RowFormat>(format), n_values_, nullptr};
        p.n_tokens = n_tokens;
        p.n_matrices = int32_t(matrices_.size());
        p.gate = gated_ ? cuda::Gate::silu : cuda::Gate::none;
        p.rows_per_warp = std::max(rows_per_warp, 1);
        for (size_t i = 0; i < matrices_.size(); i++) {
            p.matrices[i] = matrices_[i];
        }
        if (gated_) {
            p.out_rows = {is_product ? cuda::RowFormat::f16 : cuda::RowFormat::int8, matrices_[0].n_rows, nullptr};
        }
        p.n_splits = std::max(n_splits, 1);
        if (!(is_product ? cuda::can_matrix_product(p) : cuda::can_matrix_vector(p))) {
            return std::nullopt;
        }
        choose_cut(p, is_product, rows_per_warp, n_splits);
        Memory input(cuda::activation_row_bytes(p.input.format, n_values_) * size_t(n_tokens));
        input.fill(row.data(), size_t(row.nbytes()));
        std::vector<Memory> outs;
        for (const cuda::WeightMatrix & matrix : matrices_) {
            outs.emplace_back(size_t(matrix.n_rows) * sizeof(float) * size_t(n_tokens));
        }
        Memory rows(gated_ ? cuda::activation_row_bytes(p.out_rows.format, p.out_rows.n_values) * size_t(n_tokens) : 0);
        Memory workspace(is_product ? cuda::matrix_product_workspace_bytes(p) : 0);
        Memory counters(is_product ? cuda::matrix_product_counter_bytes(p) : 0);
        counters.zero();
        p.input.rows = input.at<void>();
        if (gated_) {
            p.out_rows.rows = rows.at<void>();
        }
        if (is_product && p.n_splits > 1) {
            p.workspace = workspace.at<float>();
            p.counters = counters.at<int32_t>();
        }
        std::vector<Launch> launches;
        for (size_t copy = 0; copy < std::max<size_t>(n_copies_, 4); copy++) {
            for (size_t i = 0; i < matrices_.size(); i++) {
                p.matrices[i].rows = weights_[i][copy % n_copies_].at<void>();
                p.matrices[i].out = gated_ ? nullptr : outs[i].at<float>();
            }
            launches.push_back([p, is_product](cudaStream_t stream) {
                return is_product ? cuda::matrix_product(p, stream) : cuda::matrix_vector(p, stream);
            });
        }
        return Found{time_launches(launches, repetitions), p.rows_per_warp, p.n_splits};
    }

   private:
    // Puts the kernel's own choice in the place of zeros.
    static void choose_cut(cuda::MatrixParams & p, bool is_product, int32_t rows_per_warp, int32_t n_splits) {
        int32_t n = 0;
        check(cuda::count_multiprocessors(/*device=*/0, n), "device");
        if (is_product) {
            p.n_splits = n_splits != 0 ? n_splits : cuda::matrix_product_splits(p, n);
            return;
        }
        const auto cut = cuda::matrix_vector_cut(p, n);
        p.rows_per_warp = rows_per_warp != 0 ? rows_per_warp : cut.rows_per_warp;
        p.n_splits = n_splits != 0 ? n_splits : cut.n_splits;
    }

    int32_t n_values_;
    bool gated_;
    size_t n_copies_ = 0;
    std::vector<cuda::WeightMatrix> matrices_;
    std::vector<std::vector<Memory>> weights_;  // [matrices, copies]
};

}  // namespace

void bind_time_matrix(py::module_ & module) {
    py::class_<MatrixTimer>(module, "MatrixTimer")
        .def(py::init<const std::vector<std::tuple<int, int32_t, Bytes>> &, int32_t, bool, size_t>(),
             py::arg("matrices"), py::kw_only(), py::arg("n_values"), py::arg("gated"), py::arg("cache_bytes"))
        .def(
            "time",
            [](const MatrixTimer & timer, const std::string & form, int format, const Bytes & row, int32_t n_tokens,
               int32_t rows_per_warp, int32_t n_splits, int repetitions) -> py::object {
                const auto found = timer.time(form, format, row, n_tokens, rows_per_warp, n_splits, repetitions);
                return found ? py::object(py::make_tuple(found->times_us, found->rows_per_warp, found->n_splits))
                             : py::none();
            },
            py::arg("form"), py::kw_only(), py::arg("format"), py::arg("row"), py::arg("n_tokens"),
            py::arg("rows_per_warp"), py::arg("n_splits"), py::arg("repetitions"));
}

}  // namespace orin::kernels
