#include "tensor_source.h"

#include <algorithm>
#include <cstring>

#include "llama-model-loader.h"

namespace orin {
namespace {

Way way_into(ggml_backend_buffer_t buffer) {
    ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(buffer);
    if (std::strcmp(ggml_backend_buft_name(type), "CPU_REPACK") == 0) {
        return Way::rows;
    }
    if (ggml_backend_buffer_is_host(buffer)) {
        return Way::copied;
    }
    ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
    return device != nullptr && type == ggml_backend_dev_buffer_type(device) ? Way::device : Way::at_once;
}

void map_tensor(llama_model_loader & loader, const TensorSource & source, ggml_backend_buffer_t buffer) {
    uint8_t * const file = static_cast<uint8_t *>(loader.mappings.at(source.part)->addr());
    ggml_backend_tensor_alloc(buffer, source.tensor, file + source.offset);
    auto & [first, last] = loader.mmaps_used[source.part];  // the rest is unmapped at the end
    first = std::min<size_t>(first, source.offset);
    last = std::max<size_t>(last, source.offset + source.nbytes);
}

}  // namespace

std::vector<TensorSource> find_sources(llama_model_loader & loader, ggml_context * tensors,
                                       const std::unordered_map<uint32_t, ggml_backend_buffer *> & buffers) {
    std::vector<TensorSource> sources;
    for (ggml_tensor * tensor = ggml_get_first_tensor(tensors); tensor != nullptr;
         tensor = ggml_get_next_tensor(tensors, tensor)) {
        const auto * const weight = loader.get_weight(ggml_get_name(tensor));
        if (weight == nullptr) {
            continue;  // made by llama.cpp, such as the parts of split experts
        }
        TensorSource source{tensor, Way::copied, weight->idx, weight->offs, ggml_nbytes(tensor)};
        const bool is_lazy = loader.lazy.has(tensor);
        const auto buffer = buffers.find(weight->idx);
        if (tensor->data == nullptr && (loader.use_mmap || is_lazy) && buffer != buffers.end()) {
            map_tensor(loader, source, buffer->second);
            source.way = is_lazy ? Way::lazy : Way::mapped;
        } else {
            source.way = way_into(tensor->buffer);
        }
        sources.push_back(source);
    }
    return sources;
}

}  // namespace orin
