// One pool of KV cells, used by all contexts of an engine: the bookkeeping (cpp/pages) and the bytes it speaks of.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "../pages/paged_kv.h"
#include "kv_storage.h"

namespace orin {

class KvPool {
   public:
    // `pages` is the truth about which cell holds what, and outlives the pool.
    explicit KvPool(PagedKv & pages) : pages_(pages) {}

    PagedKv & pages() { return pages_; }
    const PagedKv & pages() const { return pages_; }
    int64_t n_cells() const { return int64_t{pages_.n_pages()} * pages_.page_size(); }

    // The storage, made by the first context for its layers. The others' layers must be the same.
    KvStorage & storage_for(const std::vector<KvLayerSize> & layers);
    // Null before the first context.
    const KvStorage * storage() const { return storage_.get(); }
    KvStorage * storage() { return storage_.get(); }

    // Does the copies on write of the step that was just placed. Before its rows are computed.
    void copy_pages(const std::vector<PageCopy> & copies);
    // Once pages were taken: what follows may touch their memory.
    void note_growth() { touched_pages_ = std::max(touched_pages_, pages_.committed_pages()); }
    // Gives the memory above the highest page in use or cached back.
    void trim();
    // The same, where that is at least half of the memory touched, or memory beyond the budget: given back at every
    // turn it would be cleared anew by the system at every turn.
    void trim_if_worthwhile();
    int64_t page_bytes() const {
        return storage_ ? static_cast<int64_t>(storage_->bytes_per_cell()) * pages_.page_size() : 0;
    }
    // Of the pages up to the highest touched since the last trim.
    int64_t committed_bytes() const { return touched_pages_ * page_bytes(); }

   private:
    PagedKv & pages_;
    std::unique_ptr<KvStorage> storage_;
    int32_t touched_pages_ = 0;
};

}  // namespace orin
