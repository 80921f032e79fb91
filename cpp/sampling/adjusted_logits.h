// One row of logits after penalties, bias and mask, in blocks, with the largest of each block.
//
// The caller's row is neither changed nor copied: blocks that nothing touches are read where they are.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "params.h"
#include "rank_key.h"

namespace orin::sampling {

class AdjustedLogits {
   public:
    static constexpr int32_t block_size = 64;

    explicit AdjustedLogits(int32_t max_vocab);

    // Reads the row once. False where a logit of it is NaN or +inf; nothing else may be called then.
    // PRECOND: row is valid (see check.h); its logits live as long as this is read.
    bool load(const Row & row);

    int32_t n_blocks() const { return n_blocks_; }
    // [n_blocks] the largest key of each block
    const uint32_t * block_keys() const { return block_keys_.data(); }
    // [block_size]; beyond the vocabulary -inf
    const float * block(int32_t index) const { return is_changed_[size_t(index)] ? changed(index) : original(index); }
    // The key of the largest logit of all.
    uint32_t top_key() const { return top_key_; }

   private:
    void penalize(const Row & row);
    void add_bias(const Row & row);
    void apply_mask(const uint32_t * words);
    float & changeable(int32_t token);
    void copy_block(int32_t index);

    const float * original(int32_t index) const { return logits_ + int64_t(index) * block_size; }
    float * changed(int32_t index) const { return changed_.get() + int64_t(index) * block_size; }

    int32_t n_blocks_ = 0;
    int32_t n_vocab_ = 0;
    uint32_t top_key_ = 0;
    const float * logits_ = nullptr;
    std::vector<uint32_t> block_keys_;
    std::unique_ptr<float[]> changed_;  // [n_blocks, block_size], written only where is_changed_
    std::vector<uint8_t> is_changed_;
    std::vector<uint32_t> counts_;  // [max_vocab] of the recent tokens; all 0 between calls
};

}  // namespace orin::sampling
