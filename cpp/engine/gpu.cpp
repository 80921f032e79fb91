#include "gpu.h"

#include <strings.h>

#include <array>
#include <cstdio>

#include "ggml-cpp.h"

namespace orin {
namespace {

std::string size_text(int64_t bytes) {
    std::array<char, 32> text{};
    const bool is_much = bytes >= 1 << 30;
    std::snprintf(text.data(), text.size(), "%.1f %s", static_cast<double>(bytes) / (is_much ? 1 << 30 : 1 << 20),
                  is_much ? "GiB" : "MiB");
    return text.data();
}

// The files' names are in capitals.
std::optional<ggml_type> type_named(const std::string & name) {
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        const auto type = static_cast<ggml_type>(i);
        const char * known = ggml_type_name(type);
        if (known != nullptr && strcasecmp(known, name.c_str()) == 0) {
            return type;
        }
    }
    return std::nullopt;
}

}  // namespace

ggml_backend_dev_t first_gpu() {
    start_runtime();
    for (const auto type : {GGML_BACKEND_DEVICE_TYPE_GPU, GGML_BACKEND_DEVICE_TYPE_IGPU}) {
        if (ggml_backend_dev_t gpu = ggml_backend_dev_by_type(type)) {
            return gpu;
        }
    }
    return nullptr;
}

bool is_only_gpu(ggml_backend_dev_t gpu) {
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t other = ggml_backend_dev_get(i);
        if (other != gpu && ggml_backend_dev_type(other) == ggml_backend_dev_type(gpu)) {
            return false;
        }
    }
    return true;
}

std::optional<GpuMemory> gpu_memory(ggml_backend_dev_t gpu) {
    size_t free = 0;
    size_t total = 0;
    try {
        const AbortGuard guard;
        ggml_backend_dev_memory(gpu, &free, &total);
    } catch (const Aborted &) {  // it does not answer any more
        total = 0;
    }
    if (total == 0) {
        return std::nullopt;
    }
    return GpuMemory{ggml_backend_dev_description(gpu), static_cast<int64_t>(free), static_cast<int64_t>(total),
                     ggml_backend_dev_type(gpu) == GGML_BACKEND_DEVICE_TYPE_IGPU};
}

bool can_look_up(ggml_backend_dev_t gpu, const std::string & type, int64_t n_columns) {
    const std::optional<ggml_type> known = type_named(type);
    if (!known || n_columns < 1 || n_columns % ggml_blck_size(*known) != 0) {
        return false;
    }
    const ggml_init_params sizes = {4 * ggml_tensor_overhead(), nullptr, true};
    const ggml_context_ptr context(ggml_init(sizes));
    ggml_tensor * table = ggml_new_tensor_2d(context.get(), *known, n_columns, 1);
    ggml_tensor * rows = ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, 1);
    const ggml_backend_buffer_ptr buffer(ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(gpu), 0));
    table->buffer = buffer.get();  // of a type that the GPU can read
    return ggml_backend_dev_supports_op(gpu, ggml_get_rows(context.get(), table, rows));
}

EngineError gpu_error(ggml_backend_dev_t gpu, const std::string & what, const std::string & reason,
                      const std::string & lower) {
    std::string text = what + ": " + reason + ".";
    if (const std::optional<GpuMemory> memory = gpu_memory(gpu)) {
        text += " " + size_text(memory->free_bytes) + " of " + size_text(memory->total_bytes) + " are free on " +
                memory->name + ".";
    }
    return EngineError(text + " " + lower);
}

bool is_lack_of_memory(const std::string & reason) {
    for (const char * words : {"out of memory", "failed to allocate", "unable to allocate", "ALLOC_FAILED"}) {
        if (reason.find(words) != std::string::npos) {
            return true;
        }
    }
    return false;
}

}  // namespace orin
