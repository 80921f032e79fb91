// One sequence, step by step, with a caller who chooses each token and looks at the logits: for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "../engine/llama_stepper.h"
#include "../sampling/sampling.h"

namespace orin {

class StepProbe {
   public:
    StepProbe(std::shared_ptr<Model> model, const EngineParams & params) : stepper_(std::move(model), params, {}) {}

    // Computes a prompt in the place of the sequence; returns how many tokens of it were there already.
    int32_t prefill(const std::vector<int32_t> & prompt);
    // Appends a token.
    void decode(int32_t token);
    void forget();
    // After the last token: [n_vocab]
    const float * logits();
    int32_t n_tokens() const { return n_tokens_; }
    LlamaStepper & stepper() { return stepper_; }

   private:
    int32_t step_to_logits();
    void end();

    LlamaStepper stepper_;
    RequestId request_ = 0;  // its last step is unfinished; 0: none
    int32_t n_tokens_ = 0;
};

}  // namespace orin
