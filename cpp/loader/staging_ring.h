// Staging memory from which a device copies by itself while more is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ggml-backend.h"

namespace orin {

// Pinned, with a stream of its own, and an event for each slot; where the device has no such thing, copies are waited
// for one by one. For one thread, but for slot(). What llama.cpp reports by aborting is thrown as Aborted.
class StagingRing {
   public:
    StagingRing(ggml_backend_dev_t device, size_t n_slots, size_t slot_bytes);
    // No copy is under way any more, and none reads the memory.
    ~StagingRing();
    StagingRing(const StagingRing &) = delete;
    StagingRing & operator=(const StagingRing &) = delete;

    uint8_t * slot(size_t i) const { return memory_ + i * slot_bytes_; }

    // Copies bytes of a slot to their place in a tensor; they must stay until wait_for(slot) or wait().
    void copy(ggml_tensor * tensor, const uint8_t * data, uint64_t offset, uint64_t nbytes);
    // All copies from this slot have been queued.
    void mark(size_t slot);
    void wait_for(size_t slot);
    void wait();

   private:
    void open(size_t n_slots);
    void free_all();

    const ggml_backend_dev_t device_;
    const size_t slot_bytes_;
    ggml_backend_t backend_ = nullptr;  // null: no copies by itself
    ggml_backend_buffer_t buffer_ = nullptr;
    std::vector<ggml_backend_event_t> events_;
    uint8_t * memory_ = nullptr;
};

}  // namespace orin
