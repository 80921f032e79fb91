#include "paged_kv.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

namespace orin {

namespace {

const PagedKvConfig & checked(const PagedKvConfig & config) {
    config.check();
    return config;
}

std::string unexpected(const char * name, int64_t value, int64_t from, int64_t to) {
    return std::string(name) + " is " + std::to_string(value) + ": expected " + std::to_string(from) + " … " +
           std::to_string(to);
}

void check_count(int32_t n_tokens) {
    if (n_tokens < 0) {
        throw std::invalid_argument("n_tokens is " + std::to_string(n_tokens) + ": expected 0 or more");
    }
}

}  // namespace

PagedKv::PagedKv(const PagedKvConfig & config)
    : config_(checked(config)), pool_(config_), closed_(config_.max_sequences) {
    sequences_.reserve(static_cast<size_t>(config_.max_sequences));
    for (SequenceId sequence = 0; sequence < config_.max_sequences; sequence++) {
        sequences_.emplace_back(config_, pool_);
        closed_.insert(sequence);
    }
    copies_.reserve(sequences_.size());
}

Sequence & PagedKv::at(SequenceId sequence) {
    return const_cast<Sequence &>(static_cast<const PagedKv *>(this)->at(sequence));
}

const Sequence & PagedKv::at(SequenceId sequence) const {
    if (sequence < 0 || sequence >= config_.max_sequences) {
        throw std::out_of_range(unexpected("sequence", sequence, 0, config_.max_sequences - 1));
    }
    if (closed_.contains(sequence)) {
        throw std::out_of_range("sequence " + std::to_string(sequence) + " is not open");
    }
    return sequences_[static_cast<size_t>(sequence)];
}

bool PagedKv::is_open(SequenceId sequence) const {
    return sequence >= 0 && sequence < config_.max_sequences && !closed_.contains(sequence);
}

SequenceId PagedKv::open() {
    if (closed_.empty()) {
        throw std::length_error("all " + std::to_string(config_.max_sequences) + " sequences are open");
    }
    const SequenceId sequence = closed_.lowest();
    closed_.erase(sequence);
    return sequence;
}

void PagedKv::close(SequenceId sequence) {
    at(sequence).truncate(0);
    closed_.insert(sequence);
}

SequenceId PagedKv::fork(SequenceId sequence) {
    const Sequence & original = at(sequence);
    if (original.n_committed() != original.n_tokens()) {
        throw std::logic_error("sequence " + std::to_string(sequence) + " has " + std::to_string(original.n_tokens()) +
                               " tokens, " + std::to_string(original.n_committed()) +
                               " of them committed: expected all; commit or truncate before forking");
    }
    const SequenceId copy = open();
    at(copy).share(original);
    return copy;
}

PagedKv::Prefix PagedKv::find_prefix(const int32_t * tokens, int32_t n_tokens) const {
    check_count(n_tokens);
    Prefix prefix = {pool_.root(), 0};
    if (!pool_.index().alive(prefix.last)) {
        return prefix;
    }
    for (; n_tokens >= config_.page_size; n_tokens -= config_.page_size) {
        const PrefixNode next = pool_.index().find(prefix.last, tokens);
        if (next.id == 0) {
            break;
        }
        prefix = {next, prefix.n_pages + 1};
        tokens += config_.page_size;
    }
    return prefix;
}

PagedKv::Prefix PagedKv::find_prefix_before_last(const int32_t * tokens, int32_t n_tokens) const {
    check_count(n_tokens);
    return find_prefix(tokens, std::max(n_tokens - 1, 0));
}

std::vector<PageId> PagedKv::prefix_pages(const int32_t * tokens, int32_t n_tokens) const {
    const Prefix prefix = find_prefix(tokens, n_tokens);
    std::vector<PageId> pages(static_cast<size_t>(prefix.n_pages));
    PrefixNode node = prefix.last;
    for (auto page = pages.rbegin(); page != pages.rend(); ++page) {
        *page = node.page;
        node = pool_.index().parent(node.page);
    }
    return pages;
}

PrefixMatch PagedKv::match_prefix(const int32_t * tokens, int32_t n_tokens) const {
    const Prefix prefix = find_prefix_before_last(tokens, n_tokens);
    PrefixMatch match = {prefix.n_pages * config_.page_size, 0};
    PrefixNode node = prefix.last;
    for (int32_t i = prefix.n_pages; i > config_.first_page_seen(match.n_tokens); i--) {
        match.n_idle_pages += pool_.n_holders(node.page) == 0;
        node = pool_.index().parent(node.page);
    }
    return match;
}

int32_t PagedKv::adopt_prefix(SequenceId sequence, const int32_t * tokens, int32_t n_tokens) {
    Sequence & empty = at(sequence);
    if (empty.n_tokens() != 0) {
        throw std::logic_error("sequence " + std::to_string(sequence) + " has " + std::to_string(empty.n_tokens()) +
                               " tokens: expected none before a prefix is adopted");
    }
    if (n_tokens > config_.max_tokens) {
        throw std::length_error(unexpected("n_tokens", n_tokens, 0, config_.max_tokens));
    }
    const Prefix prefix = find_prefix_before_last(tokens, n_tokens);
    empty.adopt(prefix.last, prefix.n_pages);
    if (config_.prefix_cache) {
        totals_.prefix_queries += n_tokens;
        totals_.prefix_hits += empty.n_tokens();
    }
    return empty.n_tokens();
}

bool PagedKv::append(SequenceId sequence, const int32_t * tokens, int32_t n_tokens) {
    Sequence & grown = at(sequence);
    check_count(n_tokens);
    const int64_t n_after = int64_t(grown.n_tokens()) + n_tokens;
    if (n_after > config_.max_tokens) {
        throw std::length_error("sequence " + std::to_string(sequence) + ": " +
                                unexpected("its number of tokens", n_after, 0, config_.max_tokens));
    }
    if (grown.pages_needed(n_tokens) > pool_.available()) {
        return false;
    }
    const std::optional<PageCopy> copy = grown.append(tokens, n_tokens);
    if (copy) {
        copies_.push_back(*copy);
        totals_.copies++;
    }
    return true;
}

int32_t PagedKv::pages_needed(SequenceId sequence, int32_t n_tokens) const {
    check_count(n_tokens);
    return at(sequence).pages_needed(n_tokens);
}

void PagedKv::set_token(SequenceId sequence, int32_t position, int32_t token) {
    Sequence & holder = at(sequence);
    if (position < holder.n_committed() || position >= holder.n_tokens()) {
        throw std::out_of_range("sequence " + std::to_string(sequence) + ": " +
                                unexpected("position", position, holder.n_committed(), holder.n_tokens() - 1));
    }
    holder.set_token(position, token);
}

void PagedKv::commit(SequenceId sequence, int32_t n_tokens) {
    Sequence & computed = at(sequence);
    if (n_tokens < computed.n_committed() || n_tokens > computed.n_tokens()) {
        throw std::invalid_argument(unexpected("n_tokens", n_tokens, computed.n_committed(), computed.n_tokens()));
    }
    const PageReads reads = computed.commit(n_tokens);
    totals_.lookups += reads.lookups;
    totals_.misses += reads.misses;
}

int32_t PagedKv::truncate(SequenceId sequence, int32_t n_keep) {
    Sequence & shortened = at(sequence);
    if (n_keep < 0 || n_keep > shortened.n_tokens()) {
        throw std::invalid_argument(unexpected("n_keep", n_keep, 0, shortened.n_tokens()));
    }
    return shortened.truncate(n_keep);
}

int32_t PagedKv::n_tokens(SequenceId sequence) const {
    return at(sequence).n_tokens();
}

int32_t PagedKv::n_committed(SequenceId sequence) const {
    return at(sequence).n_committed();
}

const std::vector<PageId> & PagedKv::block_table(SequenceId sequence) const {
    return at(sequence).block_table();
}

int64_t PagedKv::cell(SequenceId sequence, int32_t position) const {
    const Sequence & holder = at(sequence);
    const int32_t first = holder.first_page() * config_.page_size;
    if (position < first || position >= holder.n_tokens()) {
        throw std::out_of_range("sequence " + std::to_string(sequence) + ": " +
                                unexpected("position", position, first, holder.n_tokens() - 1));
    }
    return int64_t(holder.page_of(position)) * config_.page_size + position % config_.page_size;
}

bool PagedKv::set_budget(int32_t n_pages) {
    if (n_pages < 0 || n_pages >= config_.n_pages) {
        throw std::invalid_argument(unexpected("n_pages", n_pages, 0, config_.n_pages - 1));
    }
    return pool_.set_budget(n_pages);
}

PageCounters PagedKv::counters() const {
    PageCounters counters = totals_;
    pool_.count(counters);
    return counters;
}

void PagedKv::check() const {
    std::vector<int32_t> n_holders(static_cast<size_t>(config_.n_pages));
    for (SequenceId sequence = 0; sequence < config_.max_sequences; sequence++) {
        const Sequence & state = sequences_[static_cast<size_t>(sequence)];
        if (closed_.contains(sequence) && state.n_tokens() != 0) {
            throw std::logic_error("sequence " + std::to_string(sequence) + " is not open and has tokens");
        }
        state.check(n_holders);
    }
    pool_.check(n_holders);
}

}  // namespace orin
