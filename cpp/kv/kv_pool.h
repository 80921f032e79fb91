// One pool of KV cells, used by all contexts of an engine: the bookkeeping (cpp/pages) and the bytes it speaks of.
#pragma once

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

    // Does the copies on write of the step that was just placed. Before its rows are computed.
    void copy_pages();
    // Gives the memory above the highest page in use or cached back.
    void trim();
    int64_t page_bytes() const {
        return storage_ ? static_cast<int64_t>(storage_->bytes_per_cell()) * pages_.page_size() : 0;
    }
    // Of the pages up to the highest in use or cached.
    int64_t committed_bytes() const { return pages_.committed_pages() * page_bytes(); }

   private:
    PagedKv & pages_;
    std::unique_ptr<KvStorage> storage_;
};

}  // namespace orin
