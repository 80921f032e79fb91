// The pages of the naive page pool: every question is answered by a search.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "pages/paged_kv_config.h"

namespace orin {

using TokenVector = std::vector<int32_t>;

struct NaivePages {
    static constexpr int64_t none = 0;
    static constexpr int64_t root = 1;

    struct Page {
        TokenVector tokens;
        int64_t node = none;
        int64_t parent = none;
    };

    explicit NaivePages(int32_t n_pages) : budget(n_pages - 1) {}

    int32_t used() const { return static_cast<int32_t>(pages.size() - cached.size()); }

    PageId page_of(int64_t node) const {
        for (const auto & [id, page] : pages) {
            if (page.node == node) {
                return id;
            }
        }
        return scratch_page;
    }

    bool alive(int64_t node) const { return node == root || (node != none && page_of(node) != scratch_page); }

    PageId find(int64_t parent, const TokenVector & tokens) const {
        for (const auto & [id, page] : pages) {
            if (page.node != none && page.parent == parent && page.tokens == tokens) {
                return id;
            }
        }
        return scratch_page;
    }

    PageId take() {
        if (static_cast<int32_t>(pages.size()) == budget) {
            evict();
        }
        PageId page = 1;
        while (pages.count(page) != 0) {
            page++;
        }
        pages[page] = {};
        return page;
    }

    void evict() {
        pages.erase(cached.front());
        cached.pop_front();
        n_evictions++;
    }

    bool set_budget(int32_t n_pages) {
        if (n_pages < used()) {
            return false;
        }
        budget = n_pages;
        while (static_cast<int32_t>(pages.size()) > budget) {
            evict();
        }
        return true;
    }

    void drop_cached() {
        for (const PageId page : cached) {
            pages.erase(page);
        }
        cached.clear();
    }

    int32_t committed_pages() const { return pages.empty() ? 1 : pages.rbegin()->first + 1; }

    int32_t budget;
    int64_t n_evictions = 0;
    std::map<PageId, Page> pages;  // used or cached
    std::list<PageId> cached;      // the oldest first
};

}  // namespace orin
