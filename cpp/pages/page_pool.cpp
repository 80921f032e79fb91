#include "page_pool.h"

namespace orin {

PagePool::PagePool(const PagedKvConfig & config)
    : prefix_cache_(config.prefix_cache),
      budget_(config.n_pages - 1),
      pages_(static_cast<size_t>(config.n_pages)),
      free_(config.n_pages),
      taken_(config.n_pages),
      cached_pages_(config.n_pages),
      index_(config) {
    taken_.insert(scratch_page);
    for (PageId page = scratch_page + 1; page < config.n_pages; page++) {
        free_.insert(page);
    }
}

PageId PagePool::take() {
    if (used_ + cached_ == budget_) {
        evict_oldest();
    }
    const PageId page = free_.lowest();
    free_.erase(page);
    taken_.insert(page);
    at(page) = {1, 0};
    used_++;
    return page;
}

void PagePool::retain(PageId page) {
    Page & state = at(page);
    if (state.n_holders == 0) {
        cached_pages_.remove(page);
        cached_--;
        used_++;
        tokens_ += state.fill;
    } else if (state.n_holders == 1) {
        shared_++;
    }
    state.n_holders++;
}

void PagePool::release(PageId page) {
    Page & state = at(page);
    state.n_holders--;
    if (state.n_holders == 1) {
        shared_--;
    }
    if (state.n_holders > 0) {
        return;
    }
    used_--;
    tokens_ -= state.fill;
    if (index_.node(page).id == 0) {
        make_free(page);
    } else if (index_.alive(index_.parent(page))) {
        make_cached(page);
    } else {
        index_.erase(page);
        make_free(page);
    }
}

void PagePool::set_fill(PageId page, int32_t n_cells) {
    tokens_ += n_cells - at(page).fill;
    at(page).fill = n_cells;
}

void PagePool::touch(PageId page) {
    cached_pages_.remove(page);
    cached_pages_.push_youngest(page);
}

void PagePool::drop_cached() {
    while (cached_ > 0) {
        drop_oldest();
    }
}

bool PagePool::set_budget(int32_t n_pages) {
    if (n_pages < used_) {
        return false;
    }
    while (used_ + cached_ > n_pages) {
        evict_oldest();
    }
    budget_ = n_pages;
    return true;
}

void PagePool::count(PageCounters & counters) const {
    counters.used = used_;
    counters.cached = cached_;
    counters.free = budget_ - used_ - cached_;
    counters.shared = shared_;
    counters.tokens = tokens_;
    counters.evictions = evictions_;
}

void PagePool::make_cached(PageId page) {
    const PageId parent = index_.parent(page).page;
    if (parent != scratch_page && n_holders(parent) == 0) {
        cached_pages_.push_older(page, parent);
    } else {
        cached_pages_.push_youngest(page);
    }
    cached_++;
}

void PagePool::make_free(PageId page) {
    taken_.erase(page);
    free_.insert(page);
}

void PagePool::drop_oldest() {
    const PageId page = cached_pages_.oldest();
    cached_pages_.remove(page);
    cached_--;
    index_.erase(page);
    make_free(page);
}

void PagePool::evict_oldest() {
    drop_oldest();
    evictions_++;
}

}  // namespace orin
