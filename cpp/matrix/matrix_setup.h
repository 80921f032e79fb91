// What the matrix nodes of an engine share.
#pragma once

#include <cstdint>

#include "choices.h"

namespace orin {

// Must outlive the graphs: their nodes hold its address. Launches that use the workspace must be in one order: of one
// stream, or of several that wait for each other.
struct MatrixSetup {
    MatrixChoices choices;
    int32_t n_multiprocessors = 0;
    float * workspace = nullptr;  // on the device
    int32_t * counters = nullptr;

    // Of the next weights, that a launch for so many tokens asks for: more keep the device busy by themselves.
    int64_t prefetch_bytes(int64_t n_tokens) const { return n_tokens > 32 ? 0 : choices.prefetch_bytes; }
};

}  // namespace orin
