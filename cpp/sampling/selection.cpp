#include "selection.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "pack.h"
#include "rank_key.h"
#include "rule.h"

namespace orin::sampling {
namespace {

constexpr int32_t block_size = AdjustedLogits::block_size;

// Below the argument whose weight is 0 by more than what roundings of a division and a product can move.
constexpr float beyond_all_weights = zero_weight_argument - 0.5f;

// The three bounds: a logit below one cannot be kept by the filter. What lies above still has to pass the filter.
// `top + argument * temperature` rounds to float without passing a float between, so "below" holds for floats.

float bound(float top, double argument, float temperature) {
    const double lowest = static_cast<double>(top) + argument * static_cast<double>(temperature);
    return lowest < -FLT_MAX ? -FLT_MAX : static_cast<float>(lowest);
}

float min_p_bound(float top, uint32_t least, float temperature) {
    // A weight is within 0.5 and one part in 2^22 of its exponential.
    return bound(top, std::log((least - 0.75) / full_weight) - 1e-5, temperature);
}

// Even n_tokens tokens below this bound weigh less, all together, than the part that may be left away: half of it, and
// half as much again by rounding. Where a token's share of it is less than a unit, rounding is too coarse for a bound.
float top_p_bound(float top, float p, uint64_t total, int32_t n_tokens, float temperature) {
    const double weight = 0.5 * (1.0 - static_cast<double>(p)) * static_cast<double>(total) / n_tokens;
    return weight < 1.0 ? -FLT_MAX : bound(top, std::log(weight / full_weight), temperature);
}

uint64_t total_weight(const AdjustedLogits & logits, float lowest, float top, float temperature) {
    const uint32_t lowest_key = rank_key(lowest);
    uint64_t total = 0;
    for (int32_t index = 0; index < logits.n_blocks(); ++index) {
        if (logits.block_keys()[index] < lowest_key) {
            continue;
        }
        const float * block = logits.block(index);
        for (int32_t i = 0; i < block_size; ++i) {
            total += weight_of(block[i], top, temperature);
        }
    }
    return total;
}

// first, first + 1, …
Ints numbers_from(int32_t first) {
    return first + Ints{0, 1, 2, 3};
}

int32_t likeliest(const AdjustedLogits & logits) {
    const uint32_t * keys = logits.block_keys();
    const auto index = static_cast<int32_t>(std::find(keys, keys + logits.n_blocks(), logits.top_key()) - keys);
    const float * block = logits.block(index);
    return index * block_size +
           static_cast<int32_t>(std::find(block, block + block_size, logit_of(logits.top_key())) - block);
}

}  // namespace

Selection::Selection(int32_t max_vocab) : cut_finder_(max_vocab + block_size) {
    // One more block: gather() writes an item before it knows whether to keep it, and a row's end is padded.
    const size_t size = size_t(max_vocab) + 2 * block_size;
    ids_.reset(new int32_t[size]);
    logits_.reset(new float[size]);
    keys_.reset(new uint32_t[size]);
    weights_.reset(new uint32_t[size]());
    ranked_.reset(new uint64_t[size]);
}

Candidates Selection::select(const AdjustedLogits & logits, const Params & params) {
    const float top = logit_of(logits.top_key());
    if (params.temperature == 0.0f) {
        ids_[0] = likeliest(logits);
        weights_[0] = full_weight;
        return {ids_.get(), weights_.get(), 1, full_weight};
    }
    const int32_t n_tokens = logits.n_blocks() * block_size;
    const float filter_temperature = sampling::filter_temperature(params);
    const bool limits_count = params.top_k > 0 && params.top_k < n_tokens;
    const bool limits_sum = params.top_p < 1.0f;
    const uint32_t least = least_weight(params.min_p);

    float lowest = bound(top, beyond_all_weights, std::max(params.temperature, filter_temperature));
    uint64_t total = 0;
    if (limits_count) {
        // The sum is over the top k, so all of them are gathered.
        gather(logits, std::max(lowest, top_k_bound(logits, params.top_k)));
        keep_top_k(params.top_k);
        total = weigh(top, filter_temperature);
    } else {
        if (limits_sum) {
            total = total_weight(logits, lowest, top, filter_temperature);
            lowest = std::max(lowest, top_p_bound(top, params.top_p, total, n_tokens, filter_temperature));
        }
        if (least > 0) {
            lowest = std::max(lowest, min_p_bound(top, least, filter_temperature));
        }
        gather(logits, lowest);
        weigh(top, filter_temperature);
    }
    if (limits_sum) {
        keep_top_p(params.top_p, total);
    }
    if (params.temperature != filter_temperature) {
        if (least > 0) {
            keep_at_least(least);
        }
        weigh(top, params.temperature);
        keep_at_least(1);
    } else {
        keep_at_least(std::max(least, 1u));
    }
    total = 0;
    for (int32_t i = 0; i < count_; ++i) {
        total += weights_[i];
    }
    return {ids_.get(), weights_.get(), count_, total};
}

const int32_t * Selection::largest(const AdjustedLogits & logits, int32_t n) {
    gather(logits, top_k_bound(logits, n));
    keep_top_k(n);
    // As one integer an item sorts by falling key, then by rising id.
    for (int32_t i = 0; i < count_; ++i) {
        ranked_[i] = uint64_t{~rank_key(logits_[i])} << 32 | static_cast<uint32_t>(ids_[i]);
    }
    std::sort(ranked_.get(), ranked_.get() + count_);
    for (int32_t i = 0; i < count_; ++i) {
        ids_[i] = static_cast<int32_t>(ranked_[i]);
    }
    return ids_.get();
}

// All logits of at least `lowest`, in ascending order of their ids.
void Selection::gather(const AdjustedLogits & logits, float lowest) {
    const uint32_t lowest_key = rank_key(lowest);
    int32_t * ids = ids_.get();
    float * gathered = logits_.get();
    int32_t count = 0;
    for (int32_t index = 0; index < logits.n_blocks(); ++index) {
        if (logits.block_keys()[index] < lowest_key) {
            continue;
        }
        const float * block = logits.block(index);
        for (int32_t i = 0; i < block_size; i += lanes) {
            const auto items = load<Floats>(block + i);
            const Kept kept(items >= lowest);
            kept.write(numbers_from(index * block_size + i), ids + count);
            kept.write(items, gathered + count);
            count += kept.count();
        }
    }
    count_ = count;
}

// k blocks with a logit of at least the k-th largest of the blocks' maxima hold k logits that large.
float Selection::top_k_bound(const AdjustedLogits & logits, int32_t k) {
    if (k > logits.n_blocks()) {
        return logit_of(0);
    }
    const Cut cut = cut_finder_.find(logits.block_keys(), nullptr, logits.n_blocks(), static_cast<uint64_t>(k));
    return logit_of(cut.key);
}

// Keeps the items of which are_kept(i) is true; it is asked for four at a time, in ascending order.
template <typename AreKept>
void Selection::keep(AreKept are_kept) {
    int32_t * ids = ids_.get();
    float * logits = logits_.get();
    uint32_t * weights = weights_.get();
    const int32_t n_items = count_;
    int32_t count = 0;
    for (int32_t i = 0; i < n_items; i += lanes) {
        const Kept kept(are_kept(i) & (numbers_from(i) < n_items));
        kept.write(load<Ints>(ids + i), ids + count);
        kept.write(load<Floats>(logits + i), logits + count);
        kept.write(load<Words>(weights + i), weights + count);
        count += kept.count();
    }
    count_ = count;
}

// PRECOND: the keys are those of the items as they are now.
void Selection::keep_to(const Cut & cut) {
    const uint32_t * keys = keys_.get();
    keep([=](int32_t i) {
        const auto items = load<Words>(keys + i);
        return (items > cut.key) | ((items == cut.key) & (numbers_from(i) <= cut.index));
    });
}

void Selection::keep_top_k(int32_t k) {
    if (count_ > k) {
        find_keys();
        keep_to(cut_finder_.find(keys_.get(), nullptr, count_, static_cast<uint64_t>(k)));
    }
}

void Selection::keep_top_p(float p, uint64_t total) {
    find_keys();
    keep_to(cut_finder_.find(keys_.get(), weights_.get(), count_, share(p, total)));
}

void Selection::keep_at_least(uint32_t weight) {
    const uint32_t * weights = weights_.get();
    keep([=](int32_t i) { return load<Words>(weights + i) >= weight; });
}

// Sets the weights; the sum of them.
uint64_t Selection::weigh(float top, float temperature) {
    const float * logits = logits_.get();
    uint32_t * weights = weights_.get();
    const int32_t count = count_;  // the compiler cannot know that writing weights leaves it alone
    uint64_t total = 0;
    for (int32_t i = 0; i < count; ++i) {
        const uint32_t weight = weight_of(logits[i], top, temperature);
        weights[i] = weight;
        total += weight;
    }
    return total;
}

void Selection::find_keys() {
    const float * logits = logits_.get();
    uint32_t * keys = keys_.get();
    const int32_t count = count_;
    for (int32_t i = 0; i < count; ++i) {
        keys[i] = rank_key(logits[i]);
    }
}

}  // namespace orin::sampling
