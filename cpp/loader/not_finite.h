// Values that are infinite or no numbers, in tensors of any type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "../gguf/tensor_types.h"

namespace orin {

// Where, in bytes, the first block begins that has such a value or such a scale; none in types without any.
// Agrees with ggml_validate_row_data (but on F64 that no F32 can hold), which does not say where, and is not silent.
// PRECOND: nbytes % type.block_bytes == 0
std::optional<size_t> find_not_finite(const gguf::TensorType & type, const uint8_t * data, size_t nbytes);

}  // namespace orin
