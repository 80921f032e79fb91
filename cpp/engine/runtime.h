// What llama.cpp keeps per process: its start, its log and what happens when it would abort.
#pragma once

#include <stdexcept>
#include <string>

namespace orin {

// The work failed; the message says what was expected, what was found and what to do.
struct EngineError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A model that llama.cpp refused although the preflight accepted it.
struct LoadError : EngineError {
    using EngineError::EngineError;
};

// Stopped by the caller (a progress callback or a cancel) before it was done.
struct Interrupted : EngineError {
    using EngineError::EngineError;
};

// llama.cpp would have ended the process: a failed assertion, or a failed call of the GPU. The message is its own.
struct Aborted : EngineError {
    using EngineError::EngineError;
};

// llama.cpp gave a step up and said so.
struct StepFailed : EngineError {
    using EngineError::EngineError;
};

// Starts llama.cpp once per process. Called when a model is loaded, never on import: it may touch the GPU.
void start_runtime();

// While one lives on a thread, what makes llama.cpp end the process throws Aborted there instead, and the first error
// that llama.cpp logs is kept for the message.
class AbortGuard {
   public:
    AbortGuard();
    ~AbortGuard();
    AbortGuard(const AbortGuard &) = delete;
    AbortGuard & operator=(const AbortGuard &) = delete;

    // The first error that llama.cpp logged on this thread since the outermost guard was made, or "": it names the
    // cause.
    std::string first_error() const;
};

}  // namespace orin
