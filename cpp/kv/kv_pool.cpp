#include "kv_pool.h"

namespace orin {

KvStorage & KvPool::storage_for(const std::vector<KvLayerSize> & layers) {
    if (!storage_) {
        storage_ = std::make_unique<KvStorage>(layers, n_cells());
    }
    return *storage_;
}

void KvPool::copy_pages(const std::vector<PageCopy> & copies) {
    for (const PageCopy & copy : copies) {
        storage_->copy_cells(int64_t{copy.from} * pages_.page_size(), int64_t{copy.to} * pages_.page_size(),
                             copy.n_tokens);
    }
}

void KvPool::trim() {
    if (storage_) {
        storage_->give_back(int64_t{pages_.committed_pages()} * pages_.page_size());
        touched_pages_ = std::min(touched_pages_, pages_.committed_pages());
    }
}

void KvPool::trim_if_worthwhile() {
    const PageCounters now = pages_.counters();
    const int64_t n_budget = now.used + now.cached + now.free + 1;  // and the scratch page
    const int32_t n_needed = pages_.committed_pages();
    if (touched_pages_ >= 2 * n_needed || (touched_pages_ > n_budget && touched_pages_ > n_needed)) {
        trim();
    }
}

}  // namespace orin
