// What one answer is drawn with: parameters, logit bias, and the recent tokens that the penalties look at.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "../sampling/sampling.h"

namespace orin {

class Sampler {
   public:
    // penalty_window: tokens, 0 or more. Refuses nothing: sampling checks parameters and bias.
    Sampler(const sampling::Params & params, int32_t penalty_window, std::vector<sampling::Bias> bias)
        : params_(params), bias_(std::move(bias)), window_(static_cast<size_t>(penalty_window)) {
        recent_.reserve(window_);
    }

    // Shows a token to the penalties: the prompt's, and what was drawn.
    void see(int32_t token) {
        if (recent_.size() < window_) {
            recent_.push_back(token);
        } else if (window_ > 0) {
            recent_[n_seen_ % window_] = token;
        }
        ++n_seen_;
    }

    // The row of the token at `position`. Valid until the next call of see().
    // logits: [n_vocab]
    sampling::Row row(const float * logits, int32_t n_vocab, uint64_t position) const {
        sampling::Row row;
        row.params = params_;
        row.logits = logits;
        row.n_vocab = n_vocab;
        row.recent = recent_.data();
        row.n_recent = static_cast<int32_t>(recent_.size());
        row.bias = bias_.data();
        row.n_bias = static_cast<int32_t>(bias_.size());
        row.position = position;
        return row;
    }

    // For who draws on a device, and keeps a copy of the recent tokens there.
    const sampling::Params & params() const { return params_; }
    const std::vector<sampling::Bias> & bias() const { return bias_; }
    size_t penalty_window() const { return window_; }
    // The last penalty_window() tokens that it saw, or all: token number n is at n % penalty_window().
    const std::vector<int32_t> & recent() const { return recent_; }
    size_t n_seen() const { return n_seen_; }

   private:
    sampling::Params params_;
    std::vector<sampling::Bias> bias_;
    size_t window_;
    size_t n_seen_ = 0;
    std::vector<int32_t> recent_;  // a ring once it is full: penalties count, order does not matter
};

}  // namespace orin
