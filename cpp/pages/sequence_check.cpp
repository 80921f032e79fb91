// What always holds within a sequence, and between it and the pool.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "sequence.h"

namespace orin {

namespace {

void expect(bool holds, const char * invariant) {
    if (!holds) {
        throw std::logic_error(std::string("not so: ") + invariant);
    }
}

}  // namespace

void Sequence::check(std::vector<int32_t> & n_holders) const {
    expect(0 <= n_committed_ && n_committed_ <= n_tokens_, "only tokens that were placed are committed");
    expect(n_tokens_ <= config_->max_tokens, "it is within max_tokens");
    expect(n_blocks() == config_->pages_for(n_tokens_), "its block table covers its tokens");
    for (int32_t i = 0; i < n_blocks(); i++) {
        const PageId page = block_table_[static_cast<size_t>(i)];
        expect(0 <= page && page < config_->n_pages, "its pages exist");
        expect((page == scratch_page) == (i < first_page()), "pages behind the window, and only they, are given up");
        if (page == scratch_page) {
            continue;
        }
        n_holders[static_cast<size_t>(page)]++;
        expect(pool_->fill(page) >= std::min(page_size(), n_tokens_ - i * page_size()), "its tokens are in its pages");
        const int32_t * tokens = pool_->index().tokens(page);
        const int32_t * committed_end = tokens + std::clamp(n_committed_ - i * page_size(), 0, page_size());
        expect(std::find(tokens, committed_end, unknown_token) == committed_end, "tokens that are committed are known");
        if ((i + 1) * int64_t(page_size()) > n_committed_ && n_tokens_ > n_committed_) {
            expect(pool_->n_holders(page) == 1, "cells that are being written have one holder");
            expect(pool_->index().node(page).id == 0, "cells that are being written cannot be found");
        }
    }
}

}  // namespace orin
