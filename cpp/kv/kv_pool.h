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
    explicit KvPool(PagedKv & pages, int32_t n_pages) : pages_(pages), n_cells_(int64_t{n_pages} * pages.page_size()) {}

    PagedKv & pages() { return pages_; }
    const PagedKv & pages() const { return pages_; }
    int64_t n_cells() const { return n_cells_; }

    // The storage, made by the first context for its layers. The others' layers must be the same.
    KvStorage & storage_for(const std::vector<KvLayerSize> & layers);
    // Null before the first context.
    const KvStorage * storage() const { return storage_.get(); }

    // Does the copies on write of the step that was just placed. Before its rows are computed.
    void copy_pages();
    // Gives the memory above the highest page in use or cached back.
    void trim();
    // Bytes of cells up to the highest that was used since the last trim.
    int64_t committed_bytes() const { return committed_cells_ * bytes_per_cell(); }
    int64_t bytes_per_cell() const { return storage_ ? static_cast<int64_t>(storage_->bytes_per_cell()) : 0; }
    // To be told before a step that writes.
    void note_growth();

   private:
    PagedKv & pages_;
    int64_t n_cells_;
    int64_t committed_cells_ = 0;
    std::unique_ptr<KvStorage> storage_;
};

}  // namespace orin
