// The rows of a RopeTable, all of them, in the memory of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "rope_params.h"

namespace orin {

class DeviceRopeTable {
   public:
    // PRECOND: params.tabulable(), of one position per token. Covers positions 0 … n_positions - 1. Throws
    // std::bad_alloc where the device has no memory for it.
    DeviceRopeTable(RopeParams params, int32_t n_positions, ggml_backend_buffer_type_t memory);

    const RopeParams & params() const { return params_; }
    ggml_backend_buffer_type_t memory() const { return ggml_backend_buffer_get_type(buffer_.get()); }
    // Of the rows.
    size_t bytes() const { return static_cast<size_t>(n_positions(*tensor_)) * tensor_->nb[1]; }

    // [n_positions + 1, n_dims / 2, (cos, sin)] in float32, a constant of any graph but for the last row: that begins
    // with a uint32, which counts heads whose position was outside of the rows before it.
    ggml_tensor * tensor() const { return tensor_; }

    // The rows of such a tensor that are of positions.
    static int32_t n_positions(const ggml_tensor & table) { return static_cast<int32_t>(table.ne[1]) - 1; }

    // That count. Waits for what is queued on the device.
    uint32_t n_outside() const;

   private:
    const RopeParams params_;
    ggml_context_ptr context_;
    ggml_tensor * tensor_;
    ggml_backend_buffer_ptr buffer_;
};

}  // namespace orin
