// What takes an engine's steps: a scheduler that plans them, and a computer for what it plans. Needs no llama.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../scheduler/scheduler.h"
#include "computer.h"

namespace orin {

// Asked now and then during a computation, on its thread; true stops it with Interrupted.
struct StopCheck {
    bool (*stops)(void * data) = nullptr;
    void * data = nullptr;
};

class Stepper {
   public:
    virtual ~Stepper() = default;

    virtual Scheduler & scheduler() = 0;
    virtual Computer & computer() = 0;
    virtual int32_t n_vocab() const = 0;
    // Every token that ends an answer.
    virtual std::vector<int32_t> end_tokens() const = 0;
};

}  // namespace orin
