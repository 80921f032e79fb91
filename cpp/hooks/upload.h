// Inputs of graphs on their way to a GPU: through pinned memory, by copies that are queued on the stream which computes
// the graph. The host goes on at once and may write the inputs of the next step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpp.h"

namespace orin {

struct UploadCounters {
    int64_t steps;
    int64_t copies;
    int64_t bytes;
    int64_t fallbacks;  // inputs that were copied the stock way within a step, for lack of pinned memory
    int64_t pinned_bytes;
};

// For one thread, and for backends of one device, whose work must be done when this ends. A slot has the inputs of one
// step and is used again three steps later: who has at most two steps under way never waits for it.
class UploadRing {
   public:
    explicit UploadRing(ggml_backend_dev_t device) : device_(device) {}
    ~UploadRing();
    UploadRing(const UploadRing &) = delete;
    UploadRing & operator=(const UploadRing &) = delete;

    // Inputs are taken between these two.
    void begin_step();
    void end_step();

    // Queues the copy. False, and nothing is done, for what the ring is not for: no step has begun, the tensor is no
    // input, not in the host's memory, or its copy is on another device.
    bool copy(ggml_backend_t backend, const ggml_tensor & input, ggml_tensor & copy);

    const UploadCounters & counters() const { return counters_; }

   private:
    struct Slot {
        std::vector<ggml_backend_buffer_ptr> blocks;
        size_t block = 0;     // that is being filled
        size_t n_filled = 0;  // bytes of it
        ggml_backend_event_t copied = nullptr;
        bool is_copied = true;  // nothing is under way
    };

    void wait_for(Slot & slot);
    char * take(Slot & slot, size_t n_bytes);

    const ggml_backend_dev_t device_;
    std::array<Slot, 3> slots_;
    size_t next_ = 0;
    Slot * step_ = nullptr;
    ggml_backend_t backend_ = nullptr;  // that this step's copies were queued on
    UploadCounters counters_{};
};

}  // namespace orin
