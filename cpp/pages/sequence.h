// One sequence's tokens in pages of a pool.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "page_pool.h"
#include "paged_kv_config.h"

namespace orin {

// A page whose first n_tokens cells have to be copied before the step that was just placed.
struct PageCopy {
    PageId from;
    PageId to;
    int32_t n_tokens;
};

// How many pages attention read in a step, and how many of them had just been taken or copied.
struct PageReads {
    int32_t lookups;
    int32_t misses;
};

// Between calls: the block table covers all tokens; its pages before first_page_seen(n_committed()) are the scratch
// page, the others are held once each. A page that is not full holds uncommitted tokens of its one holder only.
class Sequence {
   public:
    Sequence(const PagedKvConfig & config, PagePool & pool);

    int32_t n_tokens() const { return n_tokens_; }
    int32_t n_committed() const { return n_committed_; }
    const std::vector<PageId> & block_table() const { return block_table_; }
    PageId page_of(int32_t position) const { return block_table_[static_cast<size_t>(position / page_size())]; }
    // The first page that is not behind the window.
    int32_t first_page() const { return config_->first_page_seen(n_committed_); }

    int32_t pages_needed(int32_t n_tokens) const;
    // PRECOND: pages_needed(n_tokens) are available, and the sum is at most max_tokens
    std::optional<PageCopy> append(const int32_t * tokens, int32_t n_tokens);
    void set_token(int32_t position, int32_t token);  // PRECOND: n_committed() <= position < n_tokens()
    PageReads commit(int32_t n_tokens);               // PRECOND: n_committed() <= n_tokens <= n_tokens()
    // PRECOND: 0 <= n_keep <= n_tokens()
    int32_t truncate(int32_t n_keep);

    // PRECOND of both: this one is empty
    void share(const Sequence & other);            // PRECOND: other has nothing uncommitted
    void adopt(PrefixNode last, int32_t n_pages);  // the prefix that ends with this node

    // std::logic_error where something does not hold; adds its holds to n_holders: [n_pages]
    void check(std::vector<int32_t> & n_holders) const;

   private:
    int32_t page_size() const { return config_->page_size; }
    int32_t n_blocks() const { return static_cast<int32_t>(block_table_.size()); }
    PageId & block(int32_t i) { return block_table_[static_cast<size_t>(i)]; }
    bool must_copy() const;
    std::optional<PageCopy> make_last_page_writable();
    PageCopy copy_last_page();
    void publish(int32_t block_index);
    PrefixNode node_before(int32_t block_index) const;
    void release_blocks(int32_t from, int32_t to);

    const PagedKvConfig * config_;
    PagePool * pool_;
    std::vector<PageId> block_table_;  // never grows beyond what is reserved at construction
    int32_t n_tokens_ = 0;
    int32_t n_committed_ = 0;
    int32_t copied_block_ = -1;  // copied on write since the last commit
    PrefixNode tail_;            // of the last full committed page; may be gone from the index
};

}  // namespace orin
