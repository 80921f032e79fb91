// Rows of [cos, sin] for every position up to a limit, built in blocks on first use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "rope_counters.h"
#include "rope_params.h"

namespace orin {

class RopeTable {
   public:
    static constexpr int32_t block_rows = 256;

    // PRECOND: params.tabulable(). Covers positions 0 … n_positions - 1; counts into `tally`, which outlives the table.
    RopeTable(RopeParams params, int32_t n_positions, RopeTally & tally);

    const RopeParams & params() const { return params_; }

    // Bytes of the blocks built so far.
    size_t bytes() const;

    // Writes the row of one token. Any number of threads at once. False, and nothing written, where a position is
    // outside the table or memory for its block is missing.
    // positions: [n_tokens], or [4, n_tokens] where the axes are not single; row: [n_dims]
    bool fill(const int32_t * positions, int64_t token, int64_t n_tokens, float * row);

   private:
    using Block = std::unique_ptr<float[]>;  // [block_rows, n_dims / 2, (cos, sin)]

    bool copy_row(int32_t position, float * row);
    bool gather_row(const int32_t * positions, int64_t n_tokens, float * row);
    const float * find_row(int32_t position);
    const float * find_block(size_t index);
    Block build_block(size_t index) const;

    size_t block_floats() const { return size_t(block_rows) * size_t(params_.n_dims); }

    const RopeParams params_;
    const int32_t n_positions_;
    const std::vector<uint8_t> pair_axes_;
    RopeTally & tally_;

    std::vector<std::atomic<const float *>> blocks_;  // null until built; read without the lock
    mutable std::mutex building_;
    std::vector<Block> owned_;  // [n_blocks], guarded by building_
};

}  // namespace orin
