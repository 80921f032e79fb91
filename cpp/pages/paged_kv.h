// Which page of the KV pool holds which tokens of which sequence. Bookkeeping alone: no tensor is touched here.
//
// A sequence grows in two moves: append() places tokens in cells before a step, commit() after it says that their keys
// and values are there. Only then do full pages become findable for other sequences. A token whose id is not known when
// it is placed (it is being drawn on a device) is placed as unknown_token, and named by set_token() before its commit.
//
// Memory is allocated by the constructor; after it only pending_copies() may grow, when it is not cleared every step.
// For one thread; pools of different threads share nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "number_set.h"
#include "page_counters.h"
#include "page_pool.h"
#include "paged_kv_config.h"
#include "sequence.h"

namespace orin {

using SequenceId = int32_t;  // 0 … max_sequences - 1

struct PrefixMatch {
    int32_t n_tokens;      // covered by pages that are there
    int32_t n_idle_pages;  // of these pages, those that no sequence holds: taking them lowers available_pages()
};

class PagedKv {
   public:
    // std::invalid_argument says which setting is wrong.
    explicit PagedKv(const PagedKvConfig & config);
    PagedKv(const PagedKv &) = delete;
    PagedKv & operator=(const PagedKv &) = delete;

    // --- sequences; std::out_of_range for one that is not open, std::invalid_argument for fewer than 0 tokens
    SequenceId open();  // the lowest that is not open; std::length_error when max_sequences are
    void close(SequenceId sequence);
    // Opens a sequence with the same tokens in the same pages. Nothing is copied until one of them writes.
    // std::length_error as for open(); std::logic_error while placed tokens are not committed.
    SequenceId fork(SequenceId sequence);

    // How much of `tokens` full pages already hold; at most n_tokens - 1, for the last one's logits are needed.
    // With a window, only pages that the next token looks back at are taken, but all before must still be there.
    PrefixMatch match_prefix(const int32_t * tokens, int32_t n_tokens) const;
    // The whole pages that hold `tokens` from the first one on, those behind a window, too. Nobody holds them for it.
    std::vector<PageId> prefix_pages(const int32_t * tokens, int32_t n_tokens) const;
    // Takes the matching pages for a sequence that is empty (else std::logic_error); returns the tokens covered, all
    // committed. std::length_error for more than max_tokens.
    int32_t adopt_prefix(SequenceId sequence, const int32_t * tokens, int32_t n_tokens);

    // Places tokens at the end. False, and nothing changed, when there are too few pages (idle cached ones are evicted
    // first). std::length_error beyond max_tokens.
    bool append(SequenceId sequence, const int32_t * tokens, int32_t n_tokens);
    // Pages that append() of n_tokens would take, a copy on write included.
    int32_t pages_needed(SequenceId sequence, int32_t n_tokens) const;
    // Says what an unknown token is. std::out_of_range unless it is placed and not committed.
    void set_token(SequenceId sequence, int32_t position, int32_t token);
    // The first n_tokens have been computed. Pages that the next token does not look back at are given up; a full page
    // whose content was already findable is given up for the one found. So the block table may change.
    // std::invalid_argument unless n_committed() <= n_tokens <= n_tokens().
    void commit(SequenceId sequence, int32_t n_tokens);
    void commit(SequenceId sequence) { commit(sequence, n_tokens(sequence)); }
    // Forgets everything after the first n_keep tokens, whether committed or only placed; returns how many are left:
    // n_keep, or 0 when pages that attention would look back at are gone behind the window.
    // std::invalid_argument unless 0 <= n_keep <= n_tokens().
    int32_t truncate(SequenceId sequence, int32_t n_keep);

    bool is_open(SequenceId sequence) const;
    int32_t n_tokens(SequenceId sequence) const;  // placed
    int32_t n_committed(SequenceId sequence) const;
    // [n_pages of the sequence]; pages behind the window are the scratch page. Valid until the sequence changes.
    const std::vector<PageId> & block_table(SequenceId sequence) const;
    // page * page_size + offset: where llama.cpp's cache has the token at this position. std::out_of_range for a
    // position without a token, or in a page behind the window.
    int64_t cell(SequenceId sequence, int32_t position) const;

    // --- copies on write since they were last cleared, to be done in this order before the step writes
    const std::vector<PageCopy> & pending_copies() const { return copies_; }
    void clear_copies() { copies_.clear(); }

    // --- the pool
    static constexpr PageId scratch_page = orin::scratch_page;  // idle lanes write here; never part of a sequence
    int32_t n_pages() const { return config_.n_pages; }         // capacity, the scratch page included
    int32_t page_size() const { return config_.page_size; }
    int32_t available_pages() const { return pool_.available(); }  // free or idle, within the budget
    // Pages that may be in use or cached at once, the scratch page not counted: all of them at first. Cached pages
    // beyond a smaller budget are evicted; false, and nothing changed, when more are in use. std::invalid_argument
    // unless 0 <= n_pages < the configured number.
    bool set_budget(int32_t n_pages);
    // Nothing that only the prefix cache keeps is found any more. Not counted as evictions.
    void drop_cached() { pool_.drop_cached(); }
    // One past the highest page in use or cached, at least 1: memory above it may be given back.
    int32_t committed_pages() const { return pool_.committed_pages(); }
    PageCounters counters() const;
    // While one lives, what is looked up, adopted and committed is not counted: it is no traffic of steps.
    class Uncounted {
       public:
        explicit Uncounted(PagedKv & pages) : pages_(pages), totals_(pages.totals_) {}
        ~Uncounted() { pages_.totals_ = totals_; }
        Uncounted(const Uncounted &) = delete;
        Uncounted & operator=(const Uncounted &) = delete;

       private:
        PagedKv & pages_;
        const PageCounters totals_;
    };
    // Throws std::logic_error naming the invariant that does not hold. O(pages); for tests.
    void check() const;

   private:
    struct Prefix {
        PrefixNode last;  // none when nothing was found
        int32_t n_pages;
    };

    Prefix find_prefix(const int32_t * tokens, int32_t n_tokens) const;
    Prefix find_prefix_before_last(const int32_t * tokens, int32_t n_tokens) const;
    Sequence & at(SequenceId sequence);
    const Sequence & at(SequenceId sequence) const;

    const PagedKvConfig config_;
    PagePool pool_;
    std::vector<Sequence> sequences_;  // [max_sequences]; one that is not open is empty
    NumberSet closed_;
    std::vector<PageCopy> copies_;
    PageCounters totals_{};  // what is counted here; the pool counts the rest
};

}  // namespace orin
