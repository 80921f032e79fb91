#include "upload.h"

#include <algorithm>
#include <cstring>

namespace orin {
namespace {

constexpr size_t alignment = 256;  // of a tensor in a slot, bytes
constexpr size_t block_bytes = 256u << 10;

bool is_on_host(const ggml_tensor & tensor) {
    return tensor.buffer != nullptr && ggml_backend_buffer_is_host(tensor.buffer);
}

}  // namespace

UploadRing::~UploadRing() {
    for (Slot & slot : slots_) {
        ggml_backend_event_free(slot.copied);
    }
}

void UploadRing::begin_step() {
    step_ = &slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    wait_for(*step_);
    step_->block = step_->n_filled = 0;
    backend_ = nullptr;
    counters_.steps++;
}

void UploadRing::end_step() {
    if (step_ != nullptr && backend_ != nullptr) {
        step_->is_copied = false;
        if (step_->copied == nullptr) {
            step_->copied = ggml_backend_event_new(device_);
        }
        if (step_->copied == nullptr) {
            ggml_backend_synchronize(backend_);
            step_->is_copied = true;
        } else {
            ggml_backend_event_record(step_->copied, backend_);
        }
    }
    step_ = nullptr;
}

void UploadRing::wait_for(Slot & slot) {
    if (!slot.is_copied) {
        ggml_backend_event_synchronize(slot.copied);
        slot.is_copied = true;
    }
}

bool UploadRing::copy(ggml_backend_t backend, const ggml_tensor & input, ggml_tensor & copy) {
    if (step_ == nullptr || (input.flags & GGML_TENSOR_FLAG_INPUT) == 0 || !is_on_host(input) || is_on_host(copy) ||
        ggml_backend_get_device(backend) != device_ || !ggml_is_contiguous(&input)) {
        return false;
    }
    const size_t n_bytes = ggml_nbytes(&input);
    char * pinned = take(*step_, n_bytes);
    if (pinned == nullptr) {
        counters_.fallbacks++;
        return false;
    }
    std::memcpy(pinned, input.data, n_bytes);
    backend_ = backend;
    ggml_backend_tensor_set_async(backend, &copy, pinned, 0, n_bytes);
    counters_.copies++;
    counters_.bytes += static_cast<int64_t>(n_bytes);
    return true;
}

// Null where there is no memory.
char * UploadRing::take(Slot & slot, size_t n_bytes) {
    while (slot.block < slot.blocks.size()) {
        ggml_backend_buffer_t block = slot.blocks[slot.block].get();
        const size_t first = GGML_PAD(slot.n_filled, alignment);
        if (first + n_bytes <= ggml_backend_buffer_get_size(block)) {
            slot.n_filled = first + n_bytes;
            return static_cast<char *>(ggml_backend_buffer_get_base(block)) + first;
        }
        slot.block++;
        slot.n_filled = 0;
    }
    ggml_backend_buffer_type_t pinned = ggml_backend_dev_host_buffer_type(device_);
    if (pinned == nullptr) {
        return nullptr;
    }
    ggml_backend_buffer_ptr block(ggml_backend_buft_alloc_buffer(pinned, std::max(n_bytes, block_bytes)));
    if (!block || ggml_backend_buffer_get_type(block.get()) != pinned) {  // ggml gives memory that is not pinned then
        return nullptr;
    }
    counters_.pinned_bytes += static_cast<int64_t>(ggml_backend_buffer_get_size(block.get()));
    slot.n_filled = n_bytes;
    slot.blocks.push_back(std::move(block));
    return static_cast<char *>(ggml_backend_buffer_get_base(slot.blocks.back().get()));
}

}  // namespace orin
