// The pages themselves: who holds how many, which are cached, which are free, and which is given up next.
//
// A page is used (held by sequences), cached (held by none, in the prefix index) or free. A page that nobody holds any
// more is cached when it is indexed and so is its parent; otherwise it could not be found and is free at once. Cached
// pages are evicted from the oldest on. A page becomes cached as the youngest, or next to its parent on the older side
// where that is cached already: so children go before their parents.
//
// Two things make cached pages unreachable all the same. An indexed page is withdrawn when its one holder truncates
// into it and writes on: all below it are cut off. And with a window, where a sequence may hold a page without its
// parent, a page may become cached after its child and in an older place. Such pages count as cached, and they are
// evicted when their turn comes; they are never found, for the number of the node above them is gone.
#pragma once

#include <cstdint>
#include <vector>

#include "lru_list.h"
#include "number_set.h"
#include "page_counters.h"
#include "paged_kv_config.h"
#include "prefix_index.h"

namespace orin {

class PagePool {
   public:
    // PRECOND: config.check() passed
    explicit PagePool(const PagedKvConfig & config);

    // --- holders
    int32_t available() const { return budget_ - used_; }
    // The lowest free page, for one holder and with no cell written. Evicts the oldest cached page when the budget is
    // spent. PRECOND: available() > 0
    PageId take();
    void retain(PageId page);   // PRECOND: used or cached
    void release(PageId page);  // PRECOND: used
    int32_t n_holders(PageId page) const { return at(page).n_holders; }
    // Cells that hold a token. Of a page with several holders, those of the longest since it was taken.
    int32_t fill(PageId page) const { return at(page).fill; }
    void set_fill(PageId page, int32_t n_cells);  // PRECOND: one holder

    // --- prefixes
    // The node that first pages are below; none without a prefix cache, so that nothing is indexed or found.
    PrefixNode root() const { return prefix_cache_ ? PrefixIndex::root : PrefixNode{}; }
    PrefixIndex & index() { return index_; }
    const PrefixIndex & index() const { return index_; }
    // A cached page was of use without being held.
    void touch(PageId page);
    // Every cached page becomes free.
    void drop_cached();

    // --- the whole
    bool set_budget(int32_t n_pages);
    int32_t committed_pages() const { return taken_.highest() + 1; }
    // Fills in what the pool knows: the state of the pages and the evictions.
    void count(PageCounters & counters) const;
    // std::logic_error where something does not add up. n_holders: [n_pages], counted from the block tables
    void check(const std::vector<int32_t> & n_holders) const;

   private:
    struct Page {
        int32_t n_holders = 0;
        int32_t fill = 0;
    };

    Page & at(PageId page) { return pages_[static_cast<size_t>(page)]; }
    const Page & at(PageId page) const { return pages_[static_cast<size_t>(page)]; }
    void make_cached(PageId page);
    void make_free(PageId page);
    void drop_oldest();
    void evict_oldest();
    void check_page(PageId page, int32_t n_holders) const;

    const bool prefix_cache_;
    int32_t budget_;
    int32_t used_ = 0;
    int32_t cached_ = 0;
    int32_t shared_ = 0;
    int64_t tokens_ = 0;
    int64_t evictions_ = 0;
    std::vector<Page> pages_;  // [n_pages]
    NumberSet free_;
    NumberSet taken_;  // used or cached, and the scratch page
    LruList cached_pages_;
    PrefixIndex index_;
};

}  // namespace orin
