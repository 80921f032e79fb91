#include "runtime.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "ggml.h"
#include "llama.h"
#ifdef ORIN_CUDA
#include "../../cuda/forget_error.h"
#endif

namespace orin {
namespace {

thread_local int guard_depth = 0;
thread_local std::string first_logged_error;

std::string trimmed(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
        text.pop_back();
    }
    return text;
}

void on_log(ggml_log_level level, const char * text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR && guard_depth > 0 && first_logged_error.empty()) {
        first_logged_error = trimmed(text);
    }
}

void on_abort(const char * message) {
    if (guard_depth > 0) {
#ifdef ORIN_CUDA
        cuda::forget_error();  // told by what is thrown
#endif
        throw Aborted(first_logged_error.empty() ? std::string("llama.cpp stopped at an assertion: ") + message
                                                 : first_logged_error);
    }
    std::fprintf(stderr, "fatal: llama.cpp stopped at an assertion: %s\n", message);
}

}  // namespace

void start_runtime() {
    static std::once_flag once;
    std::call_once(once, [] {
        llama_log_set(on_log, nullptr);
        ggml_set_abort_callback(on_abort);
        llama_backend_init();
    });
}

AbortGuard::AbortGuard() {
    start_runtime();
    if (guard_depth++ == 0) {
        first_logged_error.clear();
    }
}

AbortGuard::~AbortGuard() {
    guard_depth--;
}

std::string AbortGuard::first_error() const {
    return first_logged_error;
}

}  // namespace orin
