// Work that other Python threads need not wait for.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <optional>
#include <type_traits>

namespace orin {

// Unlike pybind11's guard it takes the GIL back outside of any destructor: where the interpreter is ending, Python ends
// the thread there by unwinding its stack, and a destructor would turn that into an abort.
template <typename Work>
auto without_gil(const Work & work) {
    using Result = std::decay_t<decltype(work())>;
    if constexpr (std::is_void_v<Result>) {
        without_gil([&] {
            work();
            return true;
        });
    } else {
        std::optional<Result> result;
        std::exception_ptr error;
        PyThreadState * const state = PyEval_SaveThread();
        try {
            result.emplace(work());
        } catch (const std::exception &) {
            error = std::current_exception();
        }
        PyEval_RestoreThread(state);
        if (error) {
            std::rethrow_exception(error);
        }
        return std::move(*result);
    }
}

}  // namespace orin
