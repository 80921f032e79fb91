#include "rope_table.h"

#include <cstring>
#include <new>
#include <utility>

namespace orin {

namespace {

size_t blocks_for(int32_t n_positions) {
    return n_positions <= 0 ? 0 : (size_t(n_positions) - 1) / RopeTable::block_rows + 1;
}

}  // namespace

RopeTable::RopeTable(RopeParams params, int32_t n_positions, RopeTally & tally)
    : params_(std::move(params)),
      n_positions_(n_positions),
      pair_axes_(params_.pair_axes()),
      tally_(tally),
      blocks_(blocks_for(n_positions)),
      owned_(blocks_.size()) {}

size_t RopeTable::bytes() const {
    const std::lock_guard<std::mutex> lock(building_);
    size_t built = 0;
    for (const Block & block : owned_) {
        built += block != nullptr;
    }
    return built * block_floats() * sizeof(float);
}

bool RopeTable::fill(const int32_t * positions, int64_t token, int64_t n_tokens, float * row) {
    const bool served =
        pair_axes_.empty() ? copy_row(positions[token], row) : gather_row(positions + token, n_tokens, row);
    if (served) {
        tally_.count_lookup();
    } else {
        tally_.count_fallback();
    }
    return served;
}

bool RopeTable::copy_row(int32_t position, float * row) {
    const float * source = find_row(position);
    if (source == nullptr) {
        return false;
    }
    std::memcpy(row, source, size_t(params_.n_dims) * sizeof(float));
    return true;
}

bool RopeTable::gather_row(const int32_t * positions, int64_t n_tokens, float * row) {
    const float * sources[4];
    for (int axis = 0; axis < 4; axis++) {
        sources[axis] = find_row(positions[axis * n_tokens]);
        if (sources[axis] == nullptr) {
            return false;
        }
    }
    for (size_t pair = 0; pair < pair_axes_.size(); pair++) {
        std::memcpy(row + 2 * pair, sources[pair_axes_[pair]] + 2 * pair, 2 * sizeof(float));
    }
    return true;
}

const float * RopeTable::find_row(int32_t position) {
    if (position < 0 || position >= n_positions_) {
        return nullptr;
    }
    const size_t index = size_t(position) / block_rows;
    const size_t offset = size_t(position) % block_rows * size_t(params_.n_dims);
    if (index >= blocks_.size() || offset + size_t(params_.n_dims) > block_floats()) {
        tally_.count_out_of_bounds();
        return nullptr;
    }
    const float * block = find_block(index);
    return block == nullptr ? nullptr : block + offset;
}

const float * RopeTable::find_block(size_t index) {
    const float * block = blocks_[index].load(std::memory_order_acquire);
    if (block != nullptr) {
        return block;
    }
    const std::lock_guard<std::mutex> lock(building_);
    if (owned_[index] == nullptr) {
        owned_[index] = build_block(index);
        blocks_[index].store(owned_[index].get(), std::memory_order_release);
    }
    return owned_[index].get();
}

RopeTable::Block RopeTable::build_block(size_t index) const {
    Block rows(new (std::nothrow) float[block_floats()]);
    if (rows == nullptr) {
        return rows;
    }
    const auto first = static_cast<int32_t>(index) * block_rows;
    for (int32_t row = 0; row < block_rows; row++) {
        params_.write_row(first + row, rows.get() + size_t(row) * size_t(params_.n_dims));
    }
    return rows;
}

}  // namespace orin
