#include "prefix_index.h"

#include <algorithm>

namespace orin {

namespace {

// The two halves of the product of two 64-bit numbers, folded into one.
uint64_t fold(uint64_t a, uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

constexpr uint64_t golden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: bits without a pattern

size_t power_of_two_from(int32_t n) {
    size_t power = 1;
    while (power < static_cast<size_t>(n)) {
        power *= 2;
    }
    return power;
}

}  // namespace

PrefixIndex::PrefixIndex(const PagedKvConfig & config)
    : page_size_(config.page_size),
      seed_(config.hash_seed),
      multiplier_(fold(config.hash_seed ^ golden, golden) | 1),
      key_mask_(config.hash_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << config.hash_bits) - 1),
      tokens_(static_cast<size_t>(config.n_pages) * static_cast<size_t>(config.page_size)),
      entries_(static_cast<size_t>(config.n_pages)),
      buckets_(power_of_two_from(config.n_pages), scratch_page) {}

uint64_t PrefixIndex::key(PrefixNode parent, const int32_t * tokens) const {
    uint64_t hash = fold(parent.id ^ seed_, golden);
    for (int32_t i = 0; i < page_size_; i++) {
        hash = fold(hash ^ static_cast<uint32_t>(tokens[i]), multiplier_);
    }
    return hash & key_mask_;
}

PrefixNode PrefixIndex::find(PrefixNode parent, const int32_t * wanted) const {
    const uint64_t wanted_key = key(parent, wanted);
    for (PageId page = bucket(wanted_key); page != scratch_page; page = at(page).next) {
        const Entry & entry = at(page);
        if (entry.key == wanted_key && entry.parent.id == parent.id &&
            std::equal(wanted, wanted + page_size_, tokens(page))) {
            return {entry.id, page};
        }
    }
    return {};
}

PrefixNode PrefixIndex::insert(PageId page, PrefixNode parent) {
    Entry & entry = at(page);
    entry.id = ++last_id_;
    entry.key = key(parent, tokens(page));
    entry.parent = parent;
    PageId & first = bucket(entry.key);
    entry.next = first;
    entry.previous = scratch_page;
    if (first != scratch_page) {
        at(first).previous = page;
    }
    first = page;
    return node(page);
}

void PrefixIndex::erase(PageId page) {
    Entry & entry = at(page);
    if (entry.previous == scratch_page) {
        bucket(entry.key) = entry.next;
    } else {
        at(entry.previous).next = entry.next;
    }
    if (entry.next != scratch_page) {
        at(entry.next).previous = entry.previous;
    }
    entry.id = 0;
}

}  // namespace orin
