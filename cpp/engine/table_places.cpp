#include "table_places.h"

#include "ggml-backend.h"
#include "llama-model.h"

namespace orin {
namespace {

std::optional<TablePlace> place_of(const ggml_tensor * table) {
    if (table == nullptr || table->buffer == nullptr) {
        return std::nullopt;
    }
    ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(table->buffer);
    ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
    const bool is_plain = ggml_backend_buft_is_host(type);  // pinned memory names the GPU, but is the CPU's
    const bool is_on_gpu = !is_plain && device != nullptr &&
                           (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_GPU ||
                            ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_IGPU);
    return TablePlace{ggml_get_name(table), is_on_gpu ? ggml_backend_dev_description(device) : "cpu",
                      !is_plain && !is_on_gpu};
}

}  // namespace

TablePlaces table_places(const std::string & path, ModelParams params) {
    params.without_weights = true;
    const Model model(path, params, nullptr);
    const llama_model & upstream = *model.handle();
    return {place_of(upstream.tok_embd), place_of(upstream.output), upstream.tok_embd == upstream.output};
}

}  // namespace orin
