// The number by which CUDA knows a device of llama.cpp's.
#pragma once

#include <stdexcept>

#include "ggml-backend.h"

namespace orin {

// Its place among those of its backend: that lists all of CUDA's, in CUDA's order.
inline int device_ordinal(ggml_backend_dev_t device) {
    ggml_backend_reg_t backend = ggml_backend_dev_backend_reg(device);
    for (size_t i = 0; i < ggml_backend_reg_dev_count(backend); i++) {
        if (ggml_backend_reg_dev_get(backend, i) == device) {
            return static_cast<int>(i);
        }
    }
    throw std::logic_error("a device that its backend does not list");
}

}  // namespace orin
