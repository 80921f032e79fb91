// Random operations on a page pool, beside the naive model and on simulated cells.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

#include "check.h"
#include "kv_cells.h"
#include "naive_kv.h"

namespace orin {

inline PagedKvConfig random_kv_config(Random & random) {
    constexpr int32_t page_sizes[] = {1, 2, 4, 8, 16, 32, 64, 256};
    constexpr int32_t hash_bits[] = {0, 1, 2, 4, 8, 64};
    PagedKvConfig config;
    // Small pages mostly: more happens in less time.
    config.page_size = page_sizes[random.below(random.one_in(8) ? 8 : 5)];
    config.n_pages = 2 + random.below(random.one_in(3) ? 5 : random.one_in(3) ? 100 : 30);
    config.max_sequences = 1 + random.below(8);
    config.max_tokens = 1 + random.below(config.page_size * (random.one_in(4) ? 30 : 10));
    config.window =
        random.one_in(2) ? 0 : 1 + random.below(random.one_in(2) ? 3 * config.page_size : config.max_tokens);
    config.prefix_cache = !random.one_in(8);
    config.hash_seed = static_cast<uint64_t>(random.below(1 << 30));
    config.hash_bits = hash_bits[random.below(6)];
    return config;
}

class KvStorm {
   public:
    explicit KvStorm(Random & random, const PagedKvConfig & config)
        : random_(random),
          config_(config),
          kv_(config),
          model_(config),
          cells_(config),
          copies_late_(random.one_in(2)),
          n_words_(random.one_in(3) ? 1 : 2) {}

    void operation() {
        act();
        compare();
    }

   private:
    using Action = void (KvStorm::*)(SequenceId);

    void act() {
        // How often, of the sum.
        static constexpr struct {
            int32_t weight;
            Action action;
        } actions[] = {{8, &KvStorm::grow},       {2, &KvStorm::step},           {3, &KvStorm::undo_or_truncate},
                       {2, &KvStorm::fork},       {3, &KvStorm::close},          {1, &KvStorm::fail_step},
                       {1, &KvStorm::set_budget}, {1, &KvStorm::match_something}};
        const auto & open = model_.sequences();
        if (open.empty() || random_.one_in(6)) {
            start();
            return;
        }
        if (random_.one_in(300)) {
            close_all();
            return;
        }
        if (random_.one_in(100)) {
            kv_.drop_cached();
            model_.drop_cached();
            return;
        }
        const SequenceId id = std::next(open.begin(), random_.below(static_cast<int32_t>(open.size())))->first;
        int32_t draw = random_.below(21);
        for (const auto & [weight, action] : actions) {
            draw -= weight;
            if (draw < 0) {
                (this->*action)(id);
                return;
            }
        }
    }

    // Starts of few texts, and sometimes an end of its own: prompts share prefixes.
    TokenVector prompt() {
        const auto text = static_cast<uint64_t>(random_.below(3));
        TokenVector tokens;
        const int32_t n = random_.below(config_.max_tokens + 1);
        for (int32_t i = 0; i < n; i++) {
            tokens.push_back(static_cast<int32_t>((text * 0x9e3779b9 >> (i % 29)) % 2));
        }
        if (!tokens.empty() && random_.one_in(2)) {
            tokens[size_t(random_.below(n))] ^= 1;
        }
        return tokens;
    }

    void start() {
        if (model_.full()) {
            return;
        }
        const SequenceId id = kv_.open();
        CHECK(id == model_.open());
        const TokenVector tokens = prompt();
        match(tokens);
        const auto n = static_cast<int32_t>(tokens.size());
        const int32_t covered = kv_.adopt_prefix(id, tokens.data(), n);
        CHECK(covered == model_.adopt(id, tokens));
        append(id, TokenVector(tokens.begin() + covered, tokens.end()));
    }

    void append(SequenceId id, const TokenVector & tokens) {
        const auto n = static_cast<int32_t>(tokens.size());
        CHECK(kv_.pages_needed(id, n) == model_.pages_needed(id, n));
        TokenVector known = tokens;
        if (n > 0 && random_.one_in(3)) {
            known.back() = unknown_token;
        }
        const bool fits = kv_.append(id, known.data(), n);
        CHECK(fits == model_.append(id, tokens));
        if (fits && known != tokens) {
            unknown_[id][kv_.n_tokens(id) - 1] = tokens.back();
        }
        if (!copies_late_) {
            copy();
        }
    }

    void grow(SequenceId id) {
        const int32_t room = config_.max_tokens - kv_.n_tokens(id);
        const int32_t most = random_.one_in(4) ? 3 * config_.page_size : 2;
        TokenVector tokens(static_cast<size_t>(std::min(room, random_.below(most + 1))));
        std::generate(tokens.begin(), tokens.end(), [this] { return random_.below(n_words_); });
        append(id, tokens);
    }

    void copy() {
        cells_.copy(kv_.pending_copies());
        kv_.clear_copies();
    }

    // One pass of the model over some of the sequences, idle lanes beside them.
    void step(SequenceId) {
        copy();
        cells_.spoil_scratch();
        std::vector<SequenceId> taking_part;
        for (const auto & [id, sequence] : model_.sequences()) {
            cells_.spoil(kv_, id);
            if (!random_.one_in(4)) {
                taking_part.push_back(id);
                cells_.write(kv_, id, sequence.tokens);
            }
        }
        if (random_.one_in(2)) {
            std::reverse(taking_part.begin(), taking_part.end());
        }
        for (const SequenceId id : taking_part) {
            commit(id);
        }
    }

    // All that is placed, or a part of it.
    void commit(SequenceId id) {
        const int32_t n_placed = kv_.n_tokens(id) - kv_.n_committed(id);
        const int32_t n = kv_.n_tokens(id) - (random_.one_in(2) ? random_.below(n_placed + 1) : 0);
        auto & unknown = unknown_[id];
        while (!unknown.empty() && unknown.begin()->first < n) {
            kv_.set_token(id, unknown.begin()->first, unknown.begin()->second);
            unknown.erase(unknown.begin());
        }
        kv_.commit(id, n);
        model_.commit(id, n);
    }

    void fail_step(SequenceId id) {
        copy();
        cells_.spoil(kv_, id);
        truncate(id, kv_.n_committed(id));
    }

    void truncate(SequenceId id, int32_t n_keep) {
        CHECK(kv_.truncate(id, n_keep) == model_.truncate(id, n_keep));
        auto & unknown = unknown_[id];
        unknown.erase(unknown.lower_bound(kv_.n_tokens(id)), unknown.end());
    }

    void undo_or_truncate(SequenceId id) {
        const int32_t n = kv_.n_tokens(id);
        const int32_t few = std::min(n, random_.below(2 * config_.page_size + 1));
        truncate(id, random_.one_in(4) ? random_.below(n + 1) : n - few);
    }

    void fork(SequenceId id) {
        if (!model_.full() && kv_.n_tokens(id) == kv_.n_committed(id)) {
            CHECK(kv_.fork(id) == model_.fork(id));
        }
    }

    void close(SequenceId id) {
        kv_.close(id);
        model_.close(id);
        unknown_.erase(id);
    }

    void close_all() {
        while (!model_.sequences().empty()) {
            close(model_.sequences().begin()->first);
        }
        CHECK(kv_.counters().used == 0 && kv_.counters().tokens == 0);
    }

    void set_budget(SequenceId) {
        const int32_t n_pages = random_.one_in(2) ? config_.n_pages - 1 : random_.below(config_.n_pages);
        CHECK(kv_.set_budget(n_pages) == model_.set_budget(n_pages));
    }

    void match_something(SequenceId) { match(prompt()); }

    void match(const TokenVector & tokens) {
        const PrefixMatch found = kv_.match_prefix(tokens.data(), static_cast<int32_t>(tokens.size()));
        const PrefixMatch expected = model_.match(tokens);
        CHECK(found.n_tokens == expected.n_tokens);
        CHECK(found.n_idle_pages == expected.n_idle_pages);
    }

    void compare() {
        const PageCounters found = kv_.counters();
        const PageCounters expected = model_.counters();
        CHECK(found.used == expected.used);
        CHECK(found.cached == expected.cached);
        CHECK(found.free == expected.free);
        CHECK(found.shared == expected.shared);
        CHECK(found.tokens == expected.tokens);
        CHECK(found.lookups == expected.lookups);
        CHECK(found.misses == expected.misses);
        CHECK(found.evictions == expected.evictions);
        CHECK(found.copies == expected.copies);
        CHECK(found.prefix_queries == expected.prefix_queries);
        CHECK(found.prefix_hits == expected.prefix_hits);
        CHECK(found.free >= 0 && kv_.available_pages() == found.free + found.cached);
        CHECK(kv_.committed_pages() == model_.pool().committed_pages());
        for (const auto & [id, sequence] : model_.sequences()) {
            CHECK(kv_.n_tokens(id) == static_cast<int32_t>(sequence.tokens.size()));
            CHECK(kv_.n_committed(id) == sequence.n_committed);
            CHECK(kv_.block_table(id) == sequence.table);
            if (kv_.pending_copies().empty()) {
                cells_.check(kv_, id, sequence.tokens);
            }
        }
        if (random_.one_in(4)) {
            kv_.check();
        }
    }

    Random & random_;
    const PagedKvConfig config_;
    PagedKv kv_;
    NaiveKv model_;
    KvCells cells_;
    std::map<SequenceId, std::map<int32_t, int32_t>> unknown_;  // by position: what unknown tokens are
    const bool copies_late_;                                    // before the step, in one go, and not with the append
    const int32_t n_words_;  // different tokens; few, so that sequences come to the same pages
};

}  // namespace orin
