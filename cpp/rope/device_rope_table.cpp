#include "device_rope_table.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace orin {
namespace {

constexpr int64_t rows_per_upload = 1024;

}  // namespace

DeviceRopeTable::DeviceRopeTable(RopeParams params, int32_t n_positions, ggml_backend_buffer_type_t memory)
    : params_(std::move(params)),
      context_(ggml_init({ggml_tensor_overhead(), /*mem_buffer=*/nullptr, /*no_alloc=*/true})),
      tensor_(ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, params_.n_dims, int64_t(n_positions) + 1)),
      buffer_(ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), memory)) {
    if (buffer_ == nullptr) {
        throw std::bad_alloc();
    }
    // The scheduler runs a node where its weights lie.
    ggml_backend_buffer_set_usage(buffer_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_set_name(tensor_, "rope_table");
    ggml_backend_buffer_clear(buffer_.get(), 0);
    const auto row_floats = static_cast<size_t>(params_.n_dims);
    std::vector<float> rows(row_floats * rows_per_upload);
    for (int64_t first = 0; first < n_positions; first += rows_per_upload) {
        const int64_t n_rows = std::min(rows_per_upload, n_positions - first);
        for (int64_t row = 0; row < n_rows; row++) {
            params_.write_row(static_cast<int32_t>(first + row), rows.data() + static_cast<size_t>(row) * row_floats);
        }
        ggml_backend_tensor_set(tensor_, rows.data(), static_cast<size_t>(first) * tensor_->nb[1],
                                static_cast<size_t>(n_rows) * tensor_->nb[1]);
    }
}

uint32_t DeviceRopeTable::n_outside() const {
    uint32_t count = 0;
    ggml_backend_tensor_get(tensor_, &count, static_cast<size_t>(n_positions(*tensor_)) * tensor_->nb[1], sizeof count);
    return count;
}

}  // namespace orin
