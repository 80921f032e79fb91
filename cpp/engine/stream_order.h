// Two contexts compute on streams of their own: what one of them does begins when the other has done what it was told
// before. The host waits for nothing.
#pragma once

#include "ggml-backend.h"
#include "ggml-cpp.h"

namespace orin {

class StreamOrder {
   public:
    explicit StreamOrder(ggml_backend_dev_t device) : done_(ggml_backend_event_new(device)) {}

    // What is queued on this backend from now on follows what was queued on the one before.
    void enter(ggml_backend_t backend) {
        if (last_ != nullptr && last_ != backend) {
            if (done_) {
                ggml_backend_event_record(done_.get(), last_);
                ggml_backend_event_wait(backend, done_.get());
            } else {
                ggml_backend_synchronize(last_);
            }
        }
        last_ = backend;
    }
    // Contexts were made anew.
    void forget() { last_ = nullptr; }

   private:
    ggml_backend_event_ptr done_;
    ggml_backend_t last_ = nullptr;
};

}  // namespace orin
