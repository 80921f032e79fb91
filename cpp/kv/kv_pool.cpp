#include "kv_pool.h"

namespace orin {

KvStorage & KvPool::storage_for(const std::vector<KvLayerSize> & layers) {
    if (!storage_) {
        storage_ = std::make_unique<KvStorage>(layers, n_cells());
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

void KvPool::trim() {
    if (storage_) {
        storage_->give_back(int64_t{pages_.committed_pages()} * pages_.page_size());
    }
}

}  // namespace orin
