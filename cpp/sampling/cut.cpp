#include "cut.h"

#include <algorithm>

namespace orin::sampling {
namespace {

constexpr int32_t bucket_bits = 10;

int32_t bit_width(uint32_t value) {
    int32_t width = 0;
    for (; value != 0; value >>= 1) {
        ++width;
    }
    return width;
}

}  // namespace

CutFinder::CutFinder(int32_t max_items)
    : keys_(new uint32_t[size_t(max_items)]),
      weights_(new uint32_t[size_t(max_items)]),
      indices_(new int32_t[size_t(max_items)]),
      sums_(size_t{1} << bucket_bits) {}

Cut CutFinder::find(const uint32_t * keys, const uint32_t * weights, int32_t n_items, uint64_t needed) {
    const int32_t * indices = nullptr;  // of the items still in question; null while these are all
    const auto weight = [&](int32_t i) { return weights != nullptr ? weights[i] : 1; };
    uint64_t sum = 0;  // of everything that ranks before the items in question
    for (;;) {
        uint32_t lowest = ~0u;
        uint32_t highest = 0;
        for (int32_t i = 0; i < n_items; ++i) {
            lowest = std::min(lowest, keys[i]);
            highest = std::max(highest, keys[i]);
        }
        if (lowest == highest) {
            break;
        }
        // Each round cuts the range of keys by 2^bucket_bits: four rounds at most.
        const int32_t shift = std::max(0, bit_width(highest - lowest) - bucket_bits);
        const uint32_t n_buckets = ((highest - lowest) >> shift) + 1;
        uint64_t * sums = sums_.data();
        std::fill_n(sums, n_buckets, uint64_t{0});
        for (int32_t i = 0; i < n_items; ++i) {
            sums[(highest - keys[i]) >> shift] += weight(i);
        }
        uint32_t bucket = 0;
        while (bucket + 1 < n_buckets && sum + sums[bucket] < needed) {
            sum += sums[bucket++];
        }
        int32_t kept = 0;
        for (int32_t i = 0; i < n_items; ++i) {
            if ((highest - keys[i]) >> shift == bucket) {
                indices_[size_t(kept)] = indices != nullptr ? indices[i] : i;
                weights_[size_t(kept)] = weight(i);
                keys_[size_t(kept++)] = keys[i];
            }
        }
        keys = keys_.get();
        weights = weights_.get();
        indices = indices_.get();
        n_items = kept;
    }
    int32_t last = 0;
    while (last + 1 < n_items && (sum += weight(last)) < needed) {
        ++last;
    }
    return {keys[0], indices != nullptr ? indices[last] : last};
}

}  // namespace orin::sampling
