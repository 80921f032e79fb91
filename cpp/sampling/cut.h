// Where a ranked list reaches a sum, without sorting it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace orin::sampling {

// Rank: larger keys first, among equal ones lower indices first.
struct Cut {
    uint32_t key;
    int32_t index;

    // Whether an item ranks at the cut or before it.
    bool keeps(uint32_t item_key, int32_t item_index) const {
        return item_key > key || (item_key == key && item_index <= index);
    }
};

class CutFinder {
   public:
    explicit CutFinder(int32_t max_items);

    // The first item in rank order at which the weights up to it sum to `needed` or more; a null `weights` counts
    // every item as 1. The last item where the sum stays below. O(n) whatever the keys are.
    // keys, weights: [n_items]. PRECOND: 1 <= n_items <= max_items.
    Cut find(const uint32_t * keys, const uint32_t * weights, int32_t n_items, uint64_t needed);

   private:
    // [max_items] the items still in question, in ascending order of their indices
    std::unique_ptr<uint32_t[]> keys_;
    std::unique_ptr<uint32_t[]> weights_;
    std::unique_ptr<int32_t[]> indices_;
    std::vector<uint64_t> sums_;  // by bucket of keys, largest keys first
};

}  // namespace orin::sampling
