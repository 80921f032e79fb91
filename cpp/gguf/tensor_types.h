// The tensor types of the format: how many bytes their blocks take. Facts of the pinned ggml.
#pragma once

#include <cstdint>
#include <string_view>

namespace orin::gguf {

struct TensorType {
    uint32_t id;
    const char * name;        // as in "Q4_K"
    uint32_t block_elements;  // along a row
    uint32_t block_bytes;
    bool is_weight;  // llama.cpp can multiply with it; the others are intermediate or integer types
};

// nullptr for an id that is unknown or no longer in use.
const TensorType * find_tensor_type(uint32_t id);

// nullptr for a name that there is not. Names are in upper case.
const TensorType * find_tensor_type(std::string_view name);

namespace type_ids {
constexpr uint32_t f32 = 0;
constexpr uint32_t nvfp4 = 40;
}  // namespace type_ids

}  // namespace orin::gguf
