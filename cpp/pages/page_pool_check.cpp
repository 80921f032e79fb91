// What always holds between the parts of the pool.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "page_pool.h"

namespace orin {

namespace {

void expect(bool holds, const char * invariant, PageId page) {
    if (!holds) {
        throw std::logic_error(std::string("page ") + std::to_string(page) + ": not so: " + invariant);
    }
}

void expect_equal(int64_t counted, int64_t found, const char * what) {
    if (counted != found) {
        throw std::logic_error(std::string(what) + ": counted " + std::to_string(counted) + ", found " +
                               std::to_string(found));
    }
}

}  // namespace

void PagePool::check_page(PageId page, int32_t holders) const {
    const Page & state = at(page);
    const bool indexed = index_.node(page).id != 0;
    expect(state.n_holders == holders, "its holders are those of the block tables", page);
    expect(free_.contains(page) != taken_.contains(page), "it is either free or taken", page);
    if (free_.contains(page)) {
        expect(holders == 0, "a free page is not held", page);
        expect(!indexed, "a free page is not indexed", page);
    } else if (holders == 0) {
        expect(indexed, "a cached page is indexed", page);
    }
    if (indexed) {
        expect(state.fill == index_.page_size(), "an indexed page is full", page);
        const PrefixNode found = index_.find(index_.parent(page), index_.tokens(page));
        expect(found.page == page && found.id == index_.node(page).id, "the index finds it by its tokens", page);
    }
}

void PagePool::check(const std::vector<int32_t> & holders) const {
    expect_equal(0, holders[scratch_page], "holders of the scratch page");
    expect(taken_.contains(scratch_page) && !free_.contains(scratch_page), "it is taken", scratch_page);
    PageCounters found{};
    for (PageId page = scratch_page + 1; page < static_cast<PageId>(pages_.size()); page++) {
        const int32_t n = holders[static_cast<size_t>(page)];
        check_page(page, n);
        found.used += n > 0;
        found.shared += n > 1;
        found.tokens += n > 0 ? at(page).fill : 0;
        found.cached += n == 0 && taken_.contains(page);
    }
    expect_equal(used_, found.used, "used pages");
    expect_equal(shared_, found.shared, "shared pages");
    expect_equal(tokens_, found.tokens, "tokens in used pages");
    expect_equal(cached_, found.cached, "cached pages");
    expect_equal(budget_, std::max<int64_t>(budget_, found.used + found.cached), "pages within the budget");
    int64_t listed = 0;
    for (PageId page = cached_pages_.oldest(); page != scratch_page; page = cached_pages_.next_younger(page)) {
        expect(n_holders(page) == 0 && taken_.contains(page), "only cached pages wait for eviction", page);
        listed++;
        expect(listed <= cached_, "the list of cached pages ends", page);
    }
    expect_equal(cached_, listed, "cached pages that wait for eviction");
}

}  // namespace orin
