#include "kv_pool.h"

#include <algorithm>

namespace orin {

KvStorage & KvPool::storage_for(const std::vector<KvLayerSize> & layers) {
    if (!storage_) {
        storage_ = std::make_unique<KvStorage>(layers, n_cells_);
    }
    return *storage_;
}

void KvPool::copy_pages() {
    for (const PageCopy & copy : pages_.pending_copies()) {
        storage_->copy_cells(int64_t{copy.from} * pages_.page_size(), int64_t{copy.to} * pages_.page_size(),
                             copy.n_tokens);
    }
    pages_.clear_copies();
}

void KvPool::note_growth() {
    committed_cells_ = std::max(committed_cells_, int64_t{pages_.committed_pages()} * pages_.page_size());
}

void KvPool::trim() {
    const int64_t first_unused = int64_t{pages_.committed_pages()} * pages_.page_size();
    if (storage_ && first_unused < committed_cells_) {
        storage_->give_back(first_unused);
    }
    committed_cells_ = first_unused;
}

}  // namespace orin
