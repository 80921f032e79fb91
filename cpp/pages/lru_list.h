// Pages in the order of their last use. The links lie in one array: no operation allocates, all take constant time.
#pragma once

#include <cstddef>
#include <vector>

#include "paged_kv_config.h"

namespace orin {

class LruList {
   public:
    explicit LruList(int32_t n_pages) : links_(static_cast<size_t>(n_pages), Link{end, end}) {}

    bool empty() const { return oldest() == end; }
    PageId oldest() const { return at(end).younger; }  // scratch_page when empty

    void push_youngest(PageId page) { insert_before(page, end); }

    // Makes `page` the next older one of `than`, which is in the list.
    void push_older(PageId page, PageId than) { insert_before(page, than); }

    void remove(PageId page) {
        const Link link = at(page);
        at(link.older).younger = link.younger;
        at(link.younger).older = link.older;
    }

    // The pages from the oldest on, for tests: scratch_page after the youngest.
    PageId next_younger(PageId page) const { return at(page).younger; }

   private:
    // The scratch page is never in the list, so its link holds both ends: younger is the oldest page, older the
    // youngest.
    static constexpr PageId end = scratch_page;

    struct Link {
        PageId older;
        PageId younger;
    };

    Link & at(PageId page) { return links_[static_cast<size_t>(page)]; }
    const Link & at(PageId page) const { return links_[static_cast<size_t>(page)]; }

    void insert_before(PageId page, PageId younger) {
        const PageId older = at(younger).older;
        at(page) = {older, younger};
        at(older).younger = page;
        at(younger).older = page;
    }

    std::vector<Link> links_;  // [n_pages]
};

}  // namespace orin
