// What the scheduler tells the planner about the pool. Look-ups that take long are made only where the plan can need
// them.
#include <algorithm>
#include <cstddef>

#include "scheduler.h"

namespace orin {

void Scheduler::look_at_pool() {
    running_.clear();
    waiting_.clear();
    for (size_t i = 0; i < requests_.size(); i++) {
        const RequestView & view = state_.requests[i];
        if (view.phase != Phase::waiting) {
            running_.push_back(i);
        } else if (!ends(view, state_.now_ms)) {
            waiting_.push_back(i);
        }
    }
    state_.available_pages = kv_.available_pages();
    int32_t most_pages = kv_config_.pages_for(planner_.config().chunk_size);  // that a step can take
    for (const size_t i : running_) {
        RequestView & view = state_.requests[i];
        view.pages_given_back = 0;
        // With room in the last page, the next token takes a page only to copy that one.
        view.copies_page = view.n_placed % kv_config_.page_size != 0 && kv_.pages_needed(requests_[i].sequence, 1) > 0;
        if (view.n_placed == 0) {
            look_up_prefix(i);
        }
        most_pages += 2 + (view.n_placed == 0 ? view.n_idle_pages : 0);
    }
    if (running_.size() < static_cast<size_t>(planner_.config().max_batch)) {
        look_up_candidates();
    }
    if (most_pages > state_.available_pages) {
        look_up_pages_given_back();
    }
}

bool Scheduler::is_more_senior(size_t a, size_t b) const {
    return more_senior(planner_.config(), state_.requests[a], state_.requests[b]);
}

void Scheduler::look_up_prefix(size_t i) {
    RequestView & view = state_.requests[i];
    const PrefixMatch match = kv_.match_prefix(requests_[i].tokens.data(), view.n_known);
    view.n_cached = match.n_tokens;
    view.n_idle_pages = match.n_idle_pages;
}

// Those that the planner looks at for admission. Without a cached prefix a look-up ends at the first page.
void Scheduler::look_up_candidates() {
    const size_t n = std::min(waiting_.size(), static_cast<size_t>(planner_.config().max_batch));
    std::partial_sort(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(n), waiting_.end(),
                      [this](size_t a, size_t b) { return is_more_senior(a, b); });
    for (size_t k = 0; k < n; k++) {
        look_up_prefix(waiting_[k]);
    }
}

// Pages are shared, so what a request gives back depends on which others have given theirs: the less senior ones.
void Scheduler::look_up_pages_given_back() {
    std::sort(running_.begin(), running_.end(), [this](size_t a, size_t b) { return is_more_senior(b, a); });
    n_holders_.assign(static_cast<size_t>(kv_.committed_pages()), 0);
    for (const size_t i : running_) {
        for (const PageId page : kv_.block_table(requests_[i].sequence)) {
            n_holders_[static_cast<size_t>(page)]++;
        }
    }
    for (const size_t i : running_) {
        for (const PageId page : kv_.block_table(requests_[i].sequence)) {
            const int32_t others = --n_holders_[static_cast<size_t>(page)];
            state_.requests[i].pages_given_back += page != PagedKv::scratch_page && others == 0;
        }
    }
}

}  // namespace orin
