#include "header.h"

namespace orin::gguf {

const Value * Header::find(std::string_view key) const {
    const auto found = key_index.find(std::string(key));
    return found == key_index.end() ? nullptr : &metadata[found->second].value;
}

const TensorInfo * Header::find_tensor(std::string_view name) const {
    const auto found = tensor_index.find(std::string(name));
    return found == tensor_index.end() ? nullptr : &tensors[found->second];
}

}  // namespace orin::gguf
