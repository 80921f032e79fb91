// What patched llama.cpp calls while a model is loaded.
#include <stdexcept>

#include "../hooks/include/orin_hooks.h"

bool orin_load_progress(float, void *) {
    return true;
}

bool orin_load_tensors(void *, llama_model_loader &, ggml_context *,
                       std::unordered_map<uint32_t, ggml_backend_buffer *> &) {
    throw std::logic_error("no load asks for this yet");
}
