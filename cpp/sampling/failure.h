#pragma once

#include <cstdint>

namespace orin::sampling {

// What stands for a token where none can be drawn.
enum Failure : int32_t {
    bad_logits = -1,    // a logit is NaN or +inf
    nothing_left = -2,  // every token has the logit -inf: bias and mask leave none
};

}  // namespace orin::sampling
