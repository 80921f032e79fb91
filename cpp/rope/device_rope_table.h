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
    size_t bytes() const { return ggml_backend_buffer_get_size(buffer_.get()); }

    // [n_positions, n_dims / 2, (cos, sin)] in float32, a constant of any graph.
    ggml_tensor * tensor() const { return tensor_; }

   private:
    const RopeParams params_;
    ggml_context_ptr context_;
    ggml_tensor * tensor_;
    ggml_backend_buffer_ptr buffer_;
};

}  // namespace orin
