// The page pool's rules in the plainest form: searches and counts everything anew, hashes nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "naive_pages.h"
#include "pages/paged_kv.h"

namespace orin {

class NaiveKv {
    static constexpr int64_t none = NaivePages::none;
    static constexpr int64_t root = NaivePages::root;
    using Page = NaivePages::Page;

   public:
    struct Sequence {
        TokenVector tokens;
        int32_t n_committed = 0;
        std::vector<PageId> table;
        std::set<int32_t> fresh;  // blocks taken or copied since the last commit
        int64_t tail = root;      // node of the last full committed page
    };

    explicit NaiveKv(const PagedKvConfig & config) : config_(config), pool_(config.n_pages) {}

    const std::map<SequenceId, Sequence> & sequences() const { return sequences_; }
    const Sequence & at(SequenceId id) const { return sequences_.at(id); }
    bool full() const { return static_cast<int32_t>(sequences_.size()) == config_.max_sequences; }

    SequenceId open() {
        SequenceId id = 0;
        while (sequences_.count(id) != 0) {
            id++;
        }
        sequences_[id] = {};
        return id;
    }

    void close(SequenceId id) {
        truncate(id, 0);
        sequences_.erase(id);
    }

    SequenceId fork(SequenceId id) {
        const Sequence original = sequences_.at(id);
        const SequenceId copy = open();
        sequences_[copy] = original;
        sequences_[copy].fresh.clear();
        return copy;
    }

    int32_t pages_needed(SequenceId id, int32_t n_tokens) const {
        const Sequence & s = sequences_.at(id);
        std::set<int32_t> blocks;
        for (int32_t i = 0; i < n_tokens; i++) {
            blocks.insert((size_of(s) + i) / config_.page_size);
        }
        int32_t needed = 0;
        for (const int32_t block : blocks) {
            needed += block >= static_cast<int32_t>(s.table.size()) || holders(s.table[size_t(block)]) > 1;
        }
        return needed;
    }

    const NaivePages & pool() const { return pool_; }
    bool set_budget(int32_t n_pages) { return pool_.set_budget(n_pages); }
    void drop_cached() { pool_.drop_cached(); }
    int32_t available() const { return pool_.budget - pool_.used(); }

    bool append(SequenceId id, const TokenVector & tokens) {
        const auto n = static_cast<int32_t>(tokens.size());
        if (pages_needed(id, n) > available()) {
            return false;
        }
        Sequence & s = sequences_.at(id);
        for (const int32_t token : tokens) {
            const int32_t offset = size_of(s) % config_.page_size;
            if (offset == 0) {
                s.table.push_back(pool_.take());
                s.fresh.insert(static_cast<int32_t>(s.table.size()) - 1);
            } else if (holders(s.table.back()) > 1) {
                const PageId from = s.table.back();
                const PageId to = pool_.take();
                pool_.pages[to].tokens.assign(pool_.pages[from].tokens.begin(),
                                              pool_.pages[from].tokens.begin() + offset);
                s.table.back() = to;
                s.fresh.insert(static_cast<int32_t>(s.table.size()) - 1);
                copies_++;
            }
            Page & page = pool_.pages.at(s.table.back());
            page.node = none;
            page.tokens.resize(static_cast<size_t>(offset));
            page.tokens.push_back(token);
            s.tokens.push_back(token);
        }
        return true;
    }

    void commit(SequenceId id, int32_t n_tokens) {
        Sequence & s = sequences_.at(id);
        if (s.n_committed == n_tokens) {
            return;
        }
        const int32_t page_size = config_.page_size;
        for (int32_t i = 0; i * page_size < n_tokens; i++) {
            lookups_ += s.table[size_t(i)] != PagedKv::scratch_page;
            misses_ += static_cast<int64_t>(s.fresh.erase(i));
        }
        for (int32_t i = s.n_committed / page_size; i < n_tokens / page_size; i++) {
            publish(s, i);
        }
        s.n_committed = n_tokens;
        for (int32_t i = 0; i < static_cast<int32_t>(s.table.size()); i++) {
            if (!seen(i, n_tokens)) {
                drop(s, i);
            }
        }
    }

    int32_t truncate(SequenceId id, int32_t n_keep) {
        Sequence & s = sequences_.at(id);
        for (int32_t i = 0; i * config_.page_size < n_keep; i++) {
            if (seen(i, n_keep) && s.table[size_t(i)] == PagedKv::scratch_page) {
                n_keep = 0;
            }
        }
        const int32_t n_blocks = (n_keep + config_.page_size - 1) / config_.page_size;
        for (int32_t i = n_blocks; i < static_cast<int32_t>(s.table.size()); i++) {
            drop(s, i);
            s.fresh.erase(i);
        }
        s.table.resize(static_cast<size_t>(n_blocks));
        s.tokens.resize(static_cast<size_t>(n_keep));
        if (n_keep < s.n_committed) {
            s.n_committed = n_keep;
            const int32_t n_full = n_keep / config_.page_size;
            const PageId last = n_full == 0 ? PagedKv::scratch_page : s.table[size_t(n_full) - 1];
            s.tail = n_full == 0 ? root : last == PagedKv::scratch_page ? none : pool_.pages.at(last).node;
        }
        const int32_t offset = n_keep % config_.page_size;
        if (offset != 0 && holders(s.table.back()) == 1 && pool_.pages.at(s.table.back()).node == none) {
            pool_.pages.at(s.table.back()).tokens.resize(static_cast<size_t>(offset));
        }
        return n_keep;
    }

    PrefixMatch match(const TokenVector & tokens) const {
        const std::vector<PageId> prefix = find_prefix(tokens);
        const int32_t n = static_cast<int32_t>(prefix.size()) * config_.page_size;
        int32_t n_idle = 0;
        for (size_t i = 0; i < prefix.size(); i++) {
            n_idle += seen(static_cast<int32_t>(i), n) && holders(prefix[i]) == 0;
        }
        return {n, n_idle};
    }

    int32_t adopt(SequenceId id, const TokenVector & tokens) {
        const std::vector<PageId> prefix = find_prefix(tokens);
        const int32_t n = static_cast<int32_t>(prefix.size()) * config_.page_size;
        Sequence & s = sequences_.at(id);
        s.tokens.assign(tokens.begin(), tokens.begin() + n);
        s.n_committed = n;
        s.table.assign(prefix.size(), PagedKv::scratch_page);
        s.tail = prefix.empty() ? root : pool_.pages.at(prefix.back()).node;
        for (size_t i = prefix.size(); i-- > 0;) {
            const bool was_cached = holders(prefix[i]) == 0;
            pool_.cached.remove(prefix[i]);
            if (seen(static_cast<int32_t>(i), n)) {
                s.table[i] = prefix[i];
            } else if (was_cached) {
                pool_.cached.push_back(prefix[i]);
            }
        }
        prefix_queries_ += config_.prefix_cache ? static_cast<int64_t>(tokens.size()) : 0;
        prefix_hits_ += n;
        return n;
    }

    PageCounters counters() const {
        PageCounters c{};
        for (const auto & [id, page] : pool_.pages) {
            const int32_t n = holders(id);
            c.used += n > 0;
            c.shared += n > 1;
            c.tokens += n > 0 ? static_cast<int64_t>(page.tokens.size()) : 0;
        }
        c.cached = static_cast<int64_t>(pool_.cached.size());
        c.free = pool_.budget - c.used - c.cached;
        c.lookups = lookups_;
        c.misses = misses_;
        c.evictions = pool_.n_evictions;
        c.copies = copies_;
        c.prefix_queries = prefix_queries_;
        c.prefix_hits = prefix_hits_;
        return c;
    }

   private:
    static int32_t size_of(const Sequence & s) { return static_cast<int32_t>(s.tokens.size()); }

    // Whether the query at this position sees a cell of the block.
    bool seen(int32_t block, int32_t position) const {
        const int32_t last = (block + 1) * config_.page_size - 1;
        return config_.window == 0 || position - last < config_.window;
    }

    int32_t holders(PageId page) const {
        int32_t n = 0;
        for (const auto & entry : sequences_) {
            n += static_cast<int32_t>(std::count(entry.second.table.begin(), entry.second.table.end(), page));
        }
        return n;
    }

    std::vector<PageId> find_prefix(const TokenVector & tokens) const {
        std::vector<PageId> prefix;
        int64_t node = root;
        for (size_t end = size_t(config_.page_size); config_.prefix_cache && end < tokens.size();
             end += size_t(config_.page_size)) {
            const auto last = tokens.begin() + static_cast<int64_t>(end);
            const PageId page = pool_.find(node, TokenVector(last - config_.page_size, last));
            if (page == PagedKv::scratch_page) {
                break;
            }
            prefix.push_back(page);
            node = pool_.pages.at(page).node;
        }
        return prefix;
    }

    void drop(Sequence & s, int32_t block) {
        const PageId page = s.table[size_t(block)];
        s.table[size_t(block)] = PagedKv::scratch_page;
        if (page == PagedKv::scratch_page || holders(page) > 0) {
            return;
        }
        const Page & dropped = pool_.pages.at(page);
        if (dropped.node == none || !pool_.alive(dropped.parent)) {
            pool_.pages.erase(page);
            return;
        }
        // next to its cached parent, on the older side; else the youngest
        const PageId parent = pool_.page_of(dropped.parent);
        pool_.cached.insert(std::find(pool_.cached.begin(), pool_.cached.end(), parent), page);
    }

    void publish(Sequence & s, int32_t block) {
        if (!config_.prefix_cache || !pool_.alive(s.tail)) {
            s.tail = none;
            return;
        }
        const PageId own = s.table[size_t(block)];
        const PageId same = pool_.find(s.tail, pool_.pages.at(own).tokens);
        if (same != PagedKv::scratch_page) {
            pool_.cached.remove(same);
            drop(s, block);
            s.table[size_t(block)] = same;
        } else {
            pool_.pages.at(own).node = ++last_node_;
            pool_.pages.at(own).parent = s.tail;
        }
        s.tail = pool_.pages.at(s.table[size_t(block)]).node;
    }

    const PagedKvConfig config_;
    NaivePages pool_;
    int64_t last_node_ = root;
    std::map<SequenceId, Sequence> sequences_;
    int64_t lookups_ = 0, misses_ = 0, copies_ = 0, prefix_queries_ = 0, prefix_hits_ = 0;
};

}  // namespace orin
