#include "deep_stack.h"

#include <pthread.h>

#include <exception>
#include <string>

#include "runtime.h"

namespace orin {
namespace {

struct Job {
    const std::function<void()> & work;
    std::exception_ptr error;
};

void * run(void * data) {
    auto & job = *static_cast<Job *>(data);
    try {
        job.work();
    } catch (...) {
        job.error = std::current_exception();
    }
    return nullptr;
}

}  // namespace

void run_on_stack(size_t stack_bytes, const std::function<void()> & work) {
    Job job{work, nullptr};
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    const int status = pthread_create(&thread, &attributes, run, &job);
    pthread_attr_destroy(&attributes);
    if (status != 0) {
        throw EngineError("there is no room for a stack of " + std::to_string(stack_bytes >> 20) +
                          " MiB, which a text of this length may need: split the text");
    }
    pthread_join(thread, nullptr);
    if (job.error) {
        std::rethrow_exception(job.error);
    }
}

}  // namespace orin
