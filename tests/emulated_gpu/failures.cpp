#include "failures.h"

#include <atomic>

#include "ggml-impl.h"

namespace emulated_gpu {
namespace {

std::atomic<Failure> asked{Failure::none};

void fail(const char * error) {
    GGML_LOG_ERROR("CUDA error: %s\n", error);
    GGML_ABORT("CUDA error");
}

}  // namespace

void set_failure(Failure failure) {
    asked = failure;
}

bool is_lost() {
    return asked == Failure::lost;
}

void before_graph() {
    Failure expected = Failure::next_graph;
    if (asked.compare_exchange_strong(expected, Failure::none)) {
        fail("out of memory");
    }
}

void before_waiting() {
    if (is_lost()) {
        fail("an illegal memory access was encountered");
    }
}

}  // namespace emulated_gpu
