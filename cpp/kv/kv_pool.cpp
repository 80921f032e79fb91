#include "kv_pool.h"

#include <algorithm>

namespace orin {

KvStorage & KvPool::storage_for(const std::vector<KvLayerSize> & layers, ggml_backend_dev_t device,
                                const std::string & no_growth) {
    if (!storage_) {
        storage_ = make_kv_storage(device, layers, n_cells(), no_growth);
    }
    return *storage_;
}

void KvPool::grow() {
    const int32_t n_pages = pages_.committed_pages();
    if (n_pages > touched_pages_) {
        storage_->commit(int64_t{n_pages} * pages_.page_size());
        touched_pages_ = n_pages;
    }
}

void KvPool::copy_pages(const std::vector<PageCopy> & copies, ggml_backend_t stream) {
    for (const PageCopy & copy : copies) {
        storage_->copy_cells(int64_t{copy.from} * pages_.page_size(), int64_t{copy.to} * pages_.page_size(),
                             copy.n_tokens, stream);
    }
}

void KvPool::trim() {
    if (storage_) {
        wait();
        storage_->give_back(int64_t{pages_.committed_pages()} * pages_.page_size());
        touched_pages_ = std::min(touched_pages_, pages_.committed_pages());
    }
}

int32_t KvPool::n_pages_with_memory() const {
    return std::max(static_cast<int32_t>(storage_->committed_cells() / pages_.page_size()) - 1, 0);
}

bool KvPool::is_trim_worthwhile() const {
    const PageCounters now = pages_.counters();
    const int64_t n_budget = now.used + now.cached + now.free + 1;  // and the scratch page
    const int32_t n_needed = pages_.committed_pages();
    return touched_pages_ >= 2 * n_needed || (touched_pages_ > n_budget && touched_pages_ > n_needed);
}

}  // namespace orin
