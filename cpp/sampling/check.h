// What may come in, and the errors.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "failure.h"
#include "params.h"

namespace orin::sampling {

constexpr float max_penalty = 100.0f;

class SamplingError : public std::runtime_error {
   public:
    using std::runtime_error::runtime_error;
};

// A row that cannot be sampled as given.
class RowError : public std::invalid_argument {
   public:
    using std::invalid_argument::invalid_argument;
};

// Throws RowError where a parameter is outside its limits, a token outside the vocabulary, or the
// vocabulary larger than max_vocab. Does not look at the logits.
void check(const Row & row, int32_t max_vocab);

// Throws SamplingError with what was found in the row; without logits it cannot say where.
[[noreturn]] void throw_failure(Failure failure, const Row & row);

}  // namespace orin::sampling
