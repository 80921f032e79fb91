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
};

}  // namespace orin
