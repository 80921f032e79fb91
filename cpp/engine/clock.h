// The clock of everything that is timed: Linux's CLOCK_MONOTONIC, which is also Python's time.monotonic().
#pragma once

#include <chrono>

namespace orin {

inline double now_ms() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace orin
