// What is asked of a GPU, and how its failures are told.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

#include "../kv/kv_storage.h"
#include "ggml-backend.h"
#include "runtime.h"

namespace orin {

struct GpuMemory {
    std::string name;
    int64_t free_bytes;  // where the GPU has no memory of its own: what the system can make available
    int64_t total_bytes;
    bool is_integrated;
};

// Null where there is none. Starts llama.cpp.
ggml_backend_dev_t first_gpu();
// llama.cpp spreads layers over all there are.
bool is_only_gpu(ggml_backend_dev_t gpu);
// Nothing where it does not tell.
std::optional<GpuMemory> gpu_memory(ggml_backend_dev_t gpu);

// Whether the GPU can look rows of this type and length up.
bool can_look_up(ggml_backend_dev_t gpu, const std::string & type, int64_t n_columns);

// "<what>: <reason>. 1.2 GiB of 61.4 GiB are free on Orin: <lower>"
EngineError gpu_error(ggml_backend_dev_t gpu, const std::string & what, const std::string & reason,
                      const std::string & lower);

// Whether llama.cpp's reason is a lack of memory.
bool is_lack_of_memory(const std::string & reason);

constexpr const char * lower_memory =
    "Lower --kv-memory, --chunk-size or -c/--ctx-size, or take memory from other programs.";

// Does work that may fail on the GPU: EngineError says what(), why it failed, and what to lower. Without a GPU (null)
// it is done as it is.
template <typename What, typename Work>
void on_gpu(ggml_backend_dev_t gpu, const What & what, const Work & work) {
    if (gpu == nullptr) {
        work();
        return;
    }
    AbortGuard guard;
    std::string reason;
    try {
        work();
        return;
    } catch (const Aborted & aborted) {
        reason = aborted.what();
    } catch (const StepFailed & failed) {
        reason = guard.first_error().empty() ? failed.what() : guard.first_error();
    } catch (const EngineError &) {
        throw;  // says what to do, as the next does
    } catch (const OutOfMemory & error) {
        throw EngineError(error.what());
    } catch (const std::logic_error &) {
        throw;  // a mistake of ours
    } catch (const std::exception & error) {
        reason = error.what();
    }
    throw gpu_error(gpu, what(), reason, lower_memory);
}

}  // namespace orin
