// MatrixParams of NumPy arrays, for both kernels that are told by it.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <vector>

#include "device_array.h"
#include "matrix.h"

namespace orin::kernels {

// A dictionary: input_format, input [n_tokens, bytes of a row], n_values; matrices, a list of (type, rows [n_rows,
// row_bytes], bias or None); gate; residual [n_tokens, n_rows] or None; out_format, -1 for no rows; rows_per_warp,
// n_splits.
class MatrixArrays {
    using Floats = DeviceArray<float>;
    using Bytes = DeviceArray<uint8_t>;
    template <typename Array>
    using List = std::vector<std::unique_ptr<Array>>;

   public:
    explicit MatrixArrays(const pybind11::dict & given) {
        const auto input = given["input"].cast<Bytes::Array>();
        params_.n_tokens = int32_t(input.shape(0));
        params_.input = {cuda::RowFormat(given["input_format"].cast<int32_t>()), given["n_values"].cast<int32_t>(),
                         keep(bytes_, input)};
        for (const auto & item : given["matrices"].cast<pybind11::list>()) {
            add_matrix(item.cast<pybind11::tuple>());
        }
        params_.gate = cuda::Gate(given["gate"].cast<int32_t>());
        if (!given["residual"].is_none()) {
            params_.residual = keep(floats_, given["residual"].cast<Floats::Array>());
        }
        add_outputs(given["out_format"].cast<int32_t>());
        params_.rows_per_warp = given["rows_per_warp"].cast<int32_t>();
        params_.n_splits = given["n_splits"].cast<int32_t>();
    }

    cuda::MatrixParams & params() { return params_; }

    // A list of what was written: [n_tokens, n_rows] floats for each matrix, or [n_tokens, bytes of a row].
    pybind11::list read() const {
        pybind11::list result;
        for (const auto & array : outs_) {
            result.append(array->read());
        }
        for (const auto & array : out_rows_) {
            result.append(array->read());
        }
        return result;
    }

   private:
    template <typename Value>
    static Value * keep(List<DeviceArray<Value>> & list, const typename DeviceArray<Value>::Array & host) {
        list.push_back(std::make_unique<DeviceArray<Value>>(host));
        return list.back()->data();
    }

    void add_matrix(const pybind11::tuple & item) {
        const auto rows = item[1].cast<Bytes::Array>();
        cuda::WeightMatrix & matrix = params_.matrices[params_.n_matrices++];
        matrix.type = cuda::WeightType(item[0].cast<int32_t>());
        matrix.rows = keep(bytes_, rows);
        matrix.row_bytes = rows.shape(1);
        matrix.n_rows = int32_t(rows.shape(0));
        if (!item[2].is_none()) {
            matrix.bias = keep(floats_, item[2].cast<Floats::Array>());
        }
    }

    // NaN and 0xEE where nothing is written.
    void add_outputs(int32_t format) {
        if (format >= 0) {
            const int32_t n_values = params_.matrices[0].n_rows;
            const size_t bytes = cuda::activation_row_bytes(cuda::RowFormat(format), n_values);
            Bytes::Array host(std::vector<size_t>{size_t(params_.n_tokens), bytes});
            std::fill_n(host.mutable_data(), host.size(), uint8_t(0xEE));
            params_.out_rows = {cuda::RowFormat(format), n_values, keep(out_rows_, host)};
            return;
        }
        for (int i = 0; i < (params_.gate == cuda::Gate::none ? params_.n_matrices : 1); i++) {
            Floats::Array host(std::vector<int32_t>{params_.n_tokens, params_.matrices[i].n_rows});
            std::fill_n(host.mutable_data(), host.size(), std::numeric_limits<float>::quiet_NaN());
            params_.matrices[i].out = keep(outs_, host);
        }
    }

    cuda::MatrixParams params_{};
    List<Bytes> bytes_;
    List<Floats> floats_;
    List<Floats> outs_;
    List<Bytes> out_rows_;
};

}  // namespace orin::kernels
