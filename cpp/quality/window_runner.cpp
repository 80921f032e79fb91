#include "window_runner.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "../engine/runtime.h"

namespace orin {
namespace {

std::shared_ptr<Model> causal(std::shared_ptr<Model> model) {
    if (!model->is_causal_decoder()) {
        throw LoadError(
            "this model does not foretell the next token of a text (its tokens see those behind them): choose a causal "
            "language model");
    }
    return model;
}

}  // namespace

WindowRunner::WindowRunner(std::shared_ptr<Model> model, const EngineParams & params, const StopCheck & stop)
    : stepper_(causal(std::move(model)), params, stop) {}

void WindowRunner::begin(std::vector<int32_t> tokens, int32_t first, WindowSteps steps) {
    const auto n_tokens = static_cast<int32_t>(tokens.size());
    if (first < 0 || first >= n_tokens) {
        throw std::invalid_argument("the first position wanted is " + std::to_string(first) + " of " +
                                    std::to_string(n_tokens) + " tokens");
    }
    const EngineParams & params = stepper_.params();
    if (steps == WindowSteps::chunks && std::min(params.chunk_size, n_tokens - first) > params.prompt_outputs) {
        throw std::invalid_argument(std::to_string(n_tokens - first) + " positions are wanted, and a step may have " +
                                    std::to_string(params.prompt_outputs));
    }
    drop();
    if (!stepper_.is_paged()) {
        stepper_.computer().forget();  // what it finds again has no logits
    }
    RequestParams request;
    request.prompt = tokens;
    if (steps == WindowSteps::one_by_one) {
        request.prompt.resize(static_cast<size_t>(first) + 1);
    }
    request.max_tokens = n_tokens + 1 - static_cast<int32_t>(request.prompt.size());
    request_ = stepper_.scheduler().submit(request, 0.0);
    tokens_ = std::move(tokens);
    first_ = next_ = first;
}

int32_t WindowRunner::next_rows(int32_t n, float * logits) {
    const int32_t end = next_ + std::min(n, n_left());
    const auto n_vocab = static_cast<size_t>(stepper_.n_vocab());
    const int32_t begun_at = next_;
    const AbortGuard guard;
    try {
        while (next_ < end) {
            while (!is_under_way_ || n_given_ == batch_.outputs.size()) {
                compute_step();
            }
            const float * row = stepper_.computer().logits(n_given_);
            logits = std::copy(row, row + n_vocab, logits);
            n_given_++;
            next_++;
        }
    } catch (...) {
        drop();
        throw;
    }
    return end - begun_at;
}

// Of the rows that the scheduler has planned only the last of all is an output there; here, each from first_ on is.
void WindowRunner::compute_step() {
    finish_step();
    batch_ = stepper_.scheduler().plan(0.0);
    if (batch_.rows.empty()) {
        throw std::logic_error("a window has no more steps");
    }
    draws_ = !batch_.outputs.empty();
    batch_.outputs.clear();
    for (size_t i = 0; i < batch_.rows.size(); i++) {
        batch_.rows[i].wants_logits = batch_.rows[i].position >= first_;
        if (batch_.rows[i].wants_logits) {
            batch_.outputs.push_back({static_cast<int32_t>(i), request_});
        }
    }
    try {
        stepper_.computer().compute(batch_);
    } catch (...) {
        stepper_.scheduler().fail_step();
        throw;
    }
    is_under_way_ = true;
    n_given_ = 0;
}

// The token that follows is the text's.
void WindowRunner::finish_step() {
    if (!is_under_way_) {
        return;
    }
    is_under_way_ = false;
    const auto n_placed = static_cast<size_t>(batch_.rows.back().position) + 1;
    const bool is_last = n_placed == tokens_.size();
    std::vector<Sampled> sampled;
    if (draws_) {
        sampled.push_back({is_last ? 0 : tokens_[n_placed], is_last});
    }
    stepper_.scheduler().finish_step(sampled);
    if (is_last) {
        request_ = 0;
    }
}

void WindowRunner::drop() {
    finish_step();
    if (request_ != 0) {
        stepper_.scheduler().cancel(request_);
        stepper_.scheduler().drop_cancelled();
        request_ = 0;
    }
    tokens_.clear();
    next_ = 0;
}

}  // namespace orin
