#include "adjusted_logits.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "rule.h"

namespace orin::sampling {
namespace {

constexpr float forbidden = -std::numeric_limits<float>::infinity();

int32_t blocks_for(int32_t n_vocab) {
    return (n_vocab - 1) / AdjustedLogits::block_size + 1;
}

uint32_t largest_key(const float * block) {
    uint32_t largest = 0;
    for (int32_t i = 0; i < AdjustedLogits::block_size; ++i) {
        largest = std::max(largest, rank_key(block[i]));
    }
    return largest;
}

}  // namespace

AdjustedLogits::AdjustedLogits(int32_t max_vocab)
    : block_keys_(size_t(blocks_for(max_vocab))),
      changed_(new float[size_t(blocks_for(max_vocab)) * block_size]),
      is_changed_(block_keys_.size()),
      counts_(size_t(max_vocab)) {}

bool AdjustedLogits::load(const Row & row) {
    logits_ = row.logits;
    n_vocab_ = row.n_vocab;
    n_blocks_ = blocks_for(row.n_vocab);
    std::fill_n(is_changed_.begin(), n_blocks_, uint8_t{0});
    if (n_vocab_ % block_size != 0) {
        copy_block(n_blocks_ - 1);
    }
    for (int32_t index = 0; index < n_blocks_; ++index) {
        block_keys_[size_t(index)] = largest_key(block(index));
    }
    const auto top = [this] { return *std::max_element(block_keys_.begin(), block_keys_.begin() + n_blocks_); };
    if (top() >= first_invalid_key) {
        return false;
    }
    penalize(row);
    add_bias(row);
    if (row.mask != nullptr) {
        apply_mask(row.mask);
    }
    for (int32_t index = 0; index < n_blocks_; ++index) {
        if (is_changed_[size_t(index)]) {
            block_keys_[size_t(index)] = largest_key(changed(index));
        }
    }
    top_key_ = top();
    return true;
}

void AdjustedLogits::penalize(const Row & row) {
    if (!has_penalties(row.params)) {
        return;
    }
    for (int32_t i = 0; i < row.n_recent; ++i) {
        ++counts_[size_t(row.recent[i])];
    }
    for (int32_t i = 0; i < row.n_recent; ++i) {
        const int32_t token = row.recent[i];
        const uint32_t count = std::exchange(counts_[size_t(token)], 0);
        if (count == 0) {
            continue;  // its earlier place in the list was its turn
        }
        float & logit = changeable(token);
        logit = penalized(logit, count, row.params);
    }
}

void AdjustedLogits::add_bias(const Row & row) {
    for (int32_t i = 0; i < row.n_bias; ++i) {
        float & logit = changeable(row.bias[i].token);
        logit = biased(logit, row.bias[i].value);
    }
}

void AdjustedLogits::apply_mask(const uint32_t * words) {
    static_assert(block_size == 64, "a block has two words");
    const int32_t n_words = (n_vocab_ + 31) / 32;
    for (int32_t index = 0; index < n_blocks_; ++index) {
        const uint32_t low = words[2 * index];
        const uint32_t high = 2 * index + 1 < n_words ? words[2 * index + 1] : 0;
        if ((low & high) == ~0u) {
            continue;
        }
        copy_block(index);
        float * logits = changed(index);
        for (int32_t i = 0; i < 32; ++i) {
            logits[i] = (low >> i & 1) != 0 ? logits[i] : forbidden;
        }
        for (int32_t i = 0; i < 32; ++i) {
            logits[32 + i] = (high >> i & 1) != 0 ? logits[32 + i] : forbidden;
        }
    }
}

float & AdjustedLogits::changeable(int32_t token) {
    copy_block(token / block_size);
    return changed(token / block_size)[token % block_size];
}

void AdjustedLogits::copy_block(int32_t index) {
    if (std::exchange(is_changed_[size_t(index)], uint8_t{1}) != 0) {
        return;
    }
    const int32_t size = std::min(block_size, n_vocab_ - index * block_size);
    std::copy_n(original(index), size, changed(index));
    std::fill(changed(index) + size, changed(index) + block_size, forbidden);
}

}  // namespace orin::sampling
