#include "number_set.h"

#include <cstddef>

namespace orin {

namespace {

constexpr int32_t bits = 64;

uint64_t bit_of(size_t number) {
    return uint64_t{1} << (number % bits);
}

}  // namespace

NumberSet::NumberSet(int32_t n) {
    size_t n_words = static_cast<size_t>(n);
    do {
        n_words = (n_words + bits - 1) / bits;
        levels_.emplace_back(n_words);
    } while (n_words > 1);
}

void NumberSet::insert(int32_t number) {
    auto index = static_cast<size_t>(number);
    for (auto & level : levels_) {
        uint64_t & word = level[index / bits];
        const bool known_above = word != 0;
        word |= bit_of(index);
        if (known_above) {
            return;
        }
        index /= bits;
    }
}

void NumberSet::erase(int32_t number) {
    auto index = static_cast<size_t>(number);
    for (auto & level : levels_) {
        uint64_t & word = level[index / bits];
        word &= ~bit_of(index);
        if (word != 0) {
            return;
        }
        index /= bits;
    }
}

bool NumberSet::contains(int32_t number) const {
    const auto index = static_cast<size_t>(number);
    return (levels_[0][index / bits] & bit_of(index)) != 0;
}

int32_t NumberSet::lowest() const {
    size_t index = 0;
    for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
        index = index * bits + static_cast<size_t>(__builtin_ctzll((*level)[index]));
    }
    return static_cast<int32_t>(index);
}

int32_t NumberSet::highest() const {
    size_t index = 0;
    for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
        index = index * bits + static_cast<size_t>(bits - 1 - __builtin_clzll((*level)[index]));
    }
    return static_cast<int32_t>(index);
}

}  // namespace orin
