// Another holder of a sequence's pages beside the scheduler: what it holds must not change.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "fake_model.h"

namespace orin {

class OtherHolder {
   public:
    OtherHolder(PagedKv & kv, const PagedKvConfig & config, const FakeModel & model)
        : kv_(kv), config_(config), model_(model) {}

    // Forks the lowest open sequence, or closes the fork that is there.
    void fork_or_close() {
        if (fork_ >= 0) {
            close();
            return;
        }
        for (SequenceId sequence = 0; sequence < config_.max_sequences; sequence++) {
            try {
                fork_ = kv_.fork(sequence);
            } catch (const std::out_of_range &) {
                continue;  // not open
            }
            const int32_t n = kv_.n_tokens(fork_);
            first_ = config_.window == 0 ? 0 : std::max(0, n - config_.window + 1);
            for (int32_t position = first_; position < n; position++) {
                tokens_.push_back(model_.token_at(kv_, fork_, position));
            }
            return;
        }
    }

    void close() {
        if (fork_ < 0) {
            return;
        }
        for (size_t i = 0; i < tokens_.size(); i++) {
            CHECK(model_.token_at(kv_, fork_, first_ + static_cast<int32_t>(i)) == tokens_[i]);
        }
        kv_.close(fork_);
        fork_ = -1;
        tokens_.clear();
    }

   private:
    PagedKv & kv_;
    const PagedKvConfig config_;
    const FakeModel & model_;
    SequenceId fork_ = -1;
    int32_t first_ = 0;  // position of the first token that its attention looks back at
    std::vector<int32_t> tokens_;
};

}  // namespace orin
