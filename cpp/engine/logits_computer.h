// A computer whose logits the host can read. Tokens are drawn on the host, when a step is collected.
#pragma once

#include "../sampling/sampling.h"
#include "computer.h"

namespace orin {

class LogitsComputer : public Computer {
   public:
    explicit LogitsComputer(int32_t n_vocab) : workspace_(n_vocab) {}

    // Computes a step, without drawing; nothing is to be collected then. Throws as start() does.
    virtual void compute(const StepBatch & batch) = 0;
    // Of the batch's output of this index: [n_vocab], valid until the next step.
    virtual const float * logits(size_t output) const = 0;

    void start(const StepBatch & batch, const std::vector<OutputDraw> & draws) override;
    std::vector<DrawnOutput> & collect() override;

   private:
    sampling::Workspace workspace_;
    // Of the step under way, by output:
    std::vector<OutputDraw> draws_;
    std::vector<sampling::Row> rows_;
    std::vector<int32_t> tokens_;
    std::vector<DrawnOutput> drawn_;
};

}  // namespace orin
