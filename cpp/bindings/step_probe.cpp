#include "step_probe.h"

#include <stdexcept>

namespace orin {

int32_t StepProbe::prefill(const std::vector<int32_t> & prompt) {
    end();
    RequestParams params;
    params.prompt = prompt;
    params.max_tokens = stepper_.params().n_ctx - static_cast<int32_t>(prompt.size());
    request_ = stepper_.scheduler().submit(params, 0.0);
    return step_to_logits();
}

void StepProbe::decode(int32_t token) {
    logits();
    stepper_.scheduler().finish_step({{token, false}});
    step_to_logits();
}

int32_t StepProbe::step_to_logits() {
    int32_t n_found = -1;
    while (true) {
        const StepBatch & batch = stepper_.scheduler().plan(0.0);
        if (batch.rows.empty()) {
            request_ = 0;
            throw std::length_error("the context is full");
        }
        stepper_.computer().compute(batch);
        n_tokens_ = batch.rows.back().position + 1;
        if (n_found < 0) {
            n_found = batch.rows.front().position;
        }
        n_found += stepper_.computer().n_found();
        if (!batch.outputs.empty()) {
            return n_found;
        }
        stepper_.scheduler().finish_step({});
    }
}

const float * StepProbe::logits() {
    if (request_ == 0) {
        throw std::logic_error("there are no logits yet: compute a prompt first");
    }
    return stepper_.computer().logits(0);
}

void StepProbe::end() {
    if (request_ != 0) {
        stepper_.scheduler().finish_step({{0, true}});
        request_ = 0;
    }
}

void StepProbe::forget() {
    end();
    n_tokens_ = 0;
    stepper_.computer().forget();
}

}  // namespace orin
