#include "staging_ring.h"

#include <new>

#include "data_file.h"

namespace orin {
namespace {

bool copies_by_itself(ggml_backend_dev_t device) {
    ggml_backend_dev_props props;
    ggml_backend_dev_get_props(device, &props);
    return props.caps.async && props.caps.host_buffer && props.caps.events;
}

}  // namespace

StagingRing::StagingRing(ggml_backend_dev_t device, size_t n_slots, size_t slot_bytes) : slot_bytes_(slot_bytes) {
    ggml_backend_buffer_type_t type = ggml_backend_cpu_buffer_type();
    if (copies_by_itself(device)) {
        backend_.reset(ggml_backend_dev_init(device, nullptr));
    }
    if (backend_ != nullptr) {
        type = ggml_backend_dev_host_buffer_type(device);
        for (size_t i = 0; i < n_slots; i++) {
            events_.emplace_back(ggml_backend_event_new(device));
        }
    }
    buffer_.reset(ggml_backend_buft_alloc_buffer(type, n_slots * slot_bytes + DataFile::alignment));
    if (buffer_ == nullptr) {
        throw std::bad_alloc();
    }
    const auto base = reinterpret_cast<uintptr_t>(ggml_backend_buffer_get_base(buffer_.get()));
    constexpr uintptr_t mask = DataFile::alignment - 1;
    memory_ = reinterpret_cast<uint8_t *>((base + mask) & ~mask);
}

StagingRing::~StagingRing() {
    try {
        wait();
    } catch (...) {
        // The device does not answer: it copies no more.
    }
}

void StagingRing::copy(ggml_tensor * tensor, const uint8_t * data, uint64_t offset, uint64_t nbytes) {
    if (backend_ == nullptr) {
        ggml_backend_tensor_set(tensor, data, offset, nbytes);
    } else {
        ggml_backend_tensor_set_async(backend_.get(), tensor, data, offset, nbytes);
    }
}

void StagingRing::mark(size_t slot) {
    if (backend_ != nullptr) {
        ggml_backend_event_record(events_[slot].get(), backend_.get());
    }
}

void StagingRing::wait_for(size_t slot) {
    if (backend_ != nullptr) {
        ggml_backend_event_synchronize(events_[slot].get());
    }
}

void StagingRing::wait() {
    if (backend_ != nullptr) {
        ggml_backend_synchronize(backend_.get());
    }
}

}  // namespace orin
