// Logits of many positions of a text, by the path that an engine's own steps take: pages, hooks and KV types.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "../engine/llama_stepper.h"

namespace orin {

// How the positions whose logits are wanted are computed.
enum class WindowSteps {
    chunks,      // as a prompt's: as many in a step as fit
    one_by_one,  // as an answer's: the first with the prompt before it, then one in a step
};

// One window of tokens at a time, each from an empty KV cache. On its caller's thread.
class WindowRunner {
   public:
    // params: max_batch 1, no prefix cache, no sampling on a GPU; n_ctx above the tokens of any window; prompt_outputs
    // as many of the tokens wanted as a step may have. Throws as LlamaStepper does.
    WindowRunner(std::shared_ptr<Model> model, const EngineParams & params, const StopCheck & stop);

    // Another window, in the place of what is left of the one before. The logits of tokens[first:] are wanted.
    // Throws std::invalid_argument where there are none, or too many of them or of tokens.
    void begin(std::vector<int32_t> tokens, int32_t first, WindowSteps steps);
    // Rows that are still to be had.
    int32_t n_left() const { return static_cast<int32_t>(tokens_.size()) - next_; }
    // The logits of the next positions, n or what is left: [n, n_vocab]. Returns how many. Throws EngineError,
    // Interrupted among them: nothing is left then.
    int32_t next_rows(int32_t n, float * logits);

    const LlamaStepper & stepper() const { return stepper_; }

   private:
    void compute_step();
    void finish_step();
    void drop();

    LlamaStepper stepper_;
    std::vector<int32_t> tokens_;
    int32_t next_ = 0;   // position of the next row
    int32_t first_ = 0;  // position of the first row there is
    RequestId request_ = 0;
    StepBatch batch_;            // of the step under way
    bool draws_ = false;         // the scheduler waits for a token of it
    bool is_under_way_ = false;  // its logits may be had
    size_t n_given_ = 0;         // of its outputs
};

}  // namespace orin
