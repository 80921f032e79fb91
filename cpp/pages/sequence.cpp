#include "sequence.h"

#include <algorithm>

namespace orin {

Sequence::Sequence(const PagedKvConfig & config, PagePool & pool) : config_(&config), pool_(&pool), tail_(pool.root()) {
    block_table_.reserve(static_cast<size_t>(config.max_tokens / config.page_size) + 1);
}

int32_t Sequence::pages_needed(int32_t n_tokens) const {
    if (n_tokens == 0) {
        return 0;
    }
    const int64_t end = int64_t(n_tokens_) + n_tokens;
    const auto blocks = static_cast<int32_t>((end + page_size() - 1) / page_size());
    return blocks - n_blocks() + must_copy();
}

bool Sequence::must_copy() const {
    return n_tokens_ % page_size() != 0 && pool_->n_holders(block_table_.back()) > 1;
}

std::optional<PageCopy> Sequence::append(const int32_t * tokens, int32_t n_tokens) {
    std::optional<PageCopy> copy;
    if (n_tokens > 0 && n_tokens_ % page_size() != 0) {
        copy = make_last_page_writable();
    }
    while (n_tokens > 0) {
        const int32_t offset = n_tokens_ % page_size();
        if (offset == 0) {
            block_table_.push_back(pool_->take());
        }
        const PageId page = block_table_.back();
        const int32_t n = std::min(page_size() - offset, n_tokens);
        std::copy_n(tokens, n, pool_->index().tokens(page) + offset);
        pool_->set_fill(page, offset + n);
        tokens += n;
        n_tokens -= n;
        n_tokens_ += n;
    }
    return copy;
}

std::optional<PageCopy> Sequence::make_last_page_writable() {
    if (must_copy()) {
        return copy_last_page();
    }
    // Full once and truncated since: others could find what is about to be overwritten.
    const PageId page = block_table_.back();
    if (pool_->index().node(page).id != 0) {
        pool_->index().erase(page);
    }
    return std::nullopt;
}

PageCopy Sequence::copy_last_page() {
    const PageCopy copy = {block_table_.back(), pool_->take(), n_tokens_ % page_size()};
    std::copy_n(pool_->index().tokens(copy.from), copy.n_tokens, pool_->index().tokens(copy.to));
    pool_->release(copy.from);
    block_table_.back() = copy.to;
    copied_block_ = n_blocks() - 1;
    return copy;
}

void Sequence::set_token(int32_t position, int32_t token) {
    pool_->index().tokens(page_of(position))[position % page_size()] = token;
}

PageReads Sequence::commit(int32_t n_tokens) {
    if (n_committed_ == n_tokens) {
        return {0, 0};
    }
    const int32_t first_seen = first_page();
    const int32_t n_pages = config_->pages_for(n_tokens);
    const int32_t n_taken = n_pages - config_->pages_for(n_committed_);
    const PageReads reads = {n_pages - first_seen, n_taken + (copied_block_ >= 0)};
    for (int32_t i = n_committed_ / page_size(); i < n_tokens / page_size(); i++) {
        publish(i);
    }
    const int32_t next_seen = config_->first_page_seen(n_tokens);
    release_blocks(first_seen, next_seen);
    for (int32_t i = first_seen; i < next_seen; i++) {
        block(i) = scratch_page;
    }
    n_committed_ = n_tokens;
    copied_block_ = -1;
    return reads;
}

// Makes a page that has become full findable, or takes the page that already holds the same after the same prefix.
void Sequence::publish(int32_t block_index) {
    PrefixIndex & index = pool_->index();
    if (!index.alive(tail_)) {
        tail_ = {};
        return;
    }
    PageId & page = block(block_index);
    const PrefixNode found = index.find(tail_, index.tokens(page));
    if (found.id == 0) {
        tail_ = index.insert(page, tail_);
        return;
    }
    pool_->retain(found.page);
    pool_->release(page);
    page = found.page;
    tail_ = found;
}

int32_t Sequence::truncate(int32_t n_keep) {
    const int32_t first_kept = config_->first_page_seen(n_keep);
    if (first_kept < first_page() && first_kept < config_->pages_for(n_keep)) {
        n_keep = 0;
    }
    const int32_t kept_blocks = config_->pages_for(n_keep);
    release_blocks(kept_blocks, n_blocks());
    block_table_.resize(static_cast<size_t>(kept_blocks));
    n_tokens_ = n_keep;
    if (n_keep < n_committed_) {
        n_committed_ = n_keep;
        tail_ = node_before(n_keep / page_size());
    }
    if (copied_block_ >= kept_blocks) {
        copied_block_ = -1;
    }
    const int32_t offset = n_keep % page_size();
    if (offset != 0) {
        const PageId page = block_table_.back();
        if (pool_->n_holders(page) == 1 && pool_->index().node(page).id == 0) {
            pool_->set_fill(page, offset);
        }
    }
    return n_keep;
}

PrefixNode Sequence::node_before(int32_t block_index) const {
    if (block_index == 0) {
        return pool_->root();
    }
    return pool_->index().node(block_table_[static_cast<size_t>(block_index) - 1]);
}

// First to last: the pool puts a child next to its cached parent, and frees it if the parent is gone.
void Sequence::release_blocks(int32_t from, int32_t to) {
    for (int32_t i = std::max(from, first_page()); i < to; i++) {
        pool_->release(block(i));
    }
}

void Sequence::share(const Sequence & other) {
    block_table_ = other.block_table_;
    n_tokens_ = n_committed_ = other.n_committed_;
    tail_ = other.tail_;
    for (int32_t i = first_page(); i < n_blocks(); i++) {
        pool_->retain(block(i));
    }
}

void Sequence::adopt(PrefixNode last, int32_t n_pages) {
    n_tokens_ = n_committed_ = n_pages * page_size();
    tail_ = last;
    block_table_.resize(static_cast<size_t>(n_pages), scratch_page);
    PrefixNode node = last;
    for (int32_t i = n_pages - 1; i >= 0; i--) {
        if (i >= first_page()) {
            block(i) = node.page;
            pool_->retain(node.page);
        } else if (pool_->n_holders(node.page) == 0) {
            pool_->touch(node.page);
        }
        node = pool_->index().parent(node.page);
    }
}

}  // namespace orin
