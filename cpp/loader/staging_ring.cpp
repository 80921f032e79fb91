#include "staging_ring.h"

#include <map>
#include <mutex>
#include <new>

#include "../engine/runtime.h"
#include "data_file.h"

namespace orin {
namespace {

bool copies_by_itself(ggml_backend_dev_t device) {
    ggml_backend_dev_props props;
    ggml_backend_dev_get_props(device, &props);
    return props.caps.async && props.caps.host_buffer && props.caps.events;
}

// Backends that no load uses at present, by device. They are never freed: that would wait for all captures of the
// process, of which a step that failed may have left one open, and end it where the device does not answer.
class IdleBackends {
   public:
    static IdleBackends & instance() {
        static auto & backends = *new IdleBackends;
        return backends;
    }

    ggml_backend_t take(ggml_backend_dev_t device) {
        {
            const std::lock_guard lock(mutex_);
            const auto found = backends_.find(device);
            if (found != backends_.end()) {
                return backends_.extract(found).mapped();
            }
        }
        return ggml_backend_dev_init(device, nullptr);
    }

    void give_back(ggml_backend_dev_t device, ggml_backend_t backend) {
        const std::lock_guard lock(mutex_);
        backends_.emplace(device, backend);
    }

   private:
    std::mutex mutex_;
    std::multimap<ggml_backend_dev_t, ggml_backend_t> backends_;
};

// False: llama.cpp would have aborted. What cannot be freed stays.
template <typename Work>
bool succeeds(const Work & work) {
    try {
        work();
        return true;
    } catch (const Aborted &) {
        return false;
    }
}

}  // namespace

StagingRing::StagingRing(ggml_backend_dev_t device, size_t n_slots, size_t slot_bytes)
    : device_(device), slot_bytes_(slot_bytes) {
    try {
        open(n_slots);
    } catch (...) {
        free_all();
        throw;
    }
}

StagingRing::~StagingRing() {
    free_all();
}

void StagingRing::open(size_t n_slots) {
    backend_ = copies_by_itself(device_) ? IdleBackends::instance().take(device_) : nullptr;
    for (size_t i = 0; backend_ != nullptr && i < n_slots; i++) {
        events_.push_back(ggml_backend_event_new(device_));
    }
    ggml_backend_buffer_type_t type =
        backend_ != nullptr ? ggml_backend_dev_host_buffer_type(device_) : ggml_backend_cpu_buffer_type();
    buffer_ = ggml_backend_buft_alloc_buffer(type, n_slots * slot_bytes_ + DataFile::alignment);
    if (buffer_ == nullptr) {
        throw std::bad_alloc();
    }
    const auto base = reinterpret_cast<uintptr_t>(ggml_backend_buffer_get_base(buffer_));
    constexpr uintptr_t mask = DataFile::alignment - 1;
    memory_ = reinterpret_cast<uint8_t *>((base + mask) & ~mask);
}

void StagingRing::free_all() {
    if (backend_ != nullptr && succeeds([&] { wait(); })) {
        IdleBackends::instance().give_back(device_, backend_);
    }
    for (ggml_backend_event_t event : events_) {
        succeeds([&] { ggml_backend_event_free(event); });
    }
    succeeds([&] { ggml_backend_buffer_free(buffer_); });
}

void StagingRing::copy(ggml_tensor * tensor, const uint8_t * data, uint64_t offset, uint64_t nbytes) {
    if (backend_ == nullptr) {
        ggml_backend_tensor_set(tensor, data, offset, nbytes);
    } else {
        ggml_backend_tensor_set_async(backend_, tensor, data, offset, nbytes);
    }
}

void StagingRing::mark(size_t slot) {
    if (backend_ != nullptr) {
        ggml_backend_event_record(events_[slot], backend_);
    }
}

void StagingRing::wait_for(size_t slot) {
    if (backend_ != nullptr) {
        ggml_backend_event_synchronize(events_[slot]);
    }
}

void StagingRing::wait() {
    if (backend_ != nullptr) {
        ggml_backend_synchronize(backend_);
    }
}

}  // namespace orin
