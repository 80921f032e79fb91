// Work of the core that Python stops: by what a callback raises, or by Ctrl-C.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <utility>

#include "../engine/runtime.h"
#include "without_gil.h"

namespace orin {

// Throws what a signal's handler raised, such as KeyboardInterrupt.
inline void look_for_signals() {
    if (PyErr_CheckSignals() != 0) {
        throw pybind11::error_already_set();
    }
}

class Interruptible {
   public:
    // What the work calls now and then, on any thread, without the GIL: `ask` runs with it. False once that has raised.
    template <typename Ask>
    bool goes_on(const Ask & ask) {
        const pybind11::gil_scoped_acquire gil;
        try {
            if (!raised_) {
                ask();
            }
        } catch (pybind11::error_already_set & error) {
            raised_.emplace(std::move(error));
        }
        return !raised_;
    }

    // Does the work, without the GIL. What was raised is thrown in place of Interrupted.
    template <typename Work>
    auto run(const Work & work) {
        raised_.reset();
        try {
            return without_gil(work);
        } catch (const Interrupted &) {
            if (raised_) {
                throw std::move(*raised_);
            }
            throw;
        }
    }

   private:
    std::optional<pybind11::error_already_set> raised_;
};

}  // namespace orin
