// One pool of KV cells, used by all contexts of an engine: the bookkeeping (cpp/pages) and the bytes it speaks of.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
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

    // The storage, made by the first context for its layers, on the device that computes them; see make_kv_storage().
    // The others' layers must be the same.
    KvStorage & storage_for(const std::vector<KvLayerSize> & layers, ggml_backend_dev_t device,
                            const std::string & no_growth);
    // Null before the first context.
    const KvStorage * storage() const { return storage_.get(); }
    KvStorage * storage() { return storage_.get(); }

    // How to wait for queued work over the pool, where work is queued. Before such memory is read, written or given
    // back by the host.
    void set_wait(std::function<void()> wait) { wait_ = std::move(wait); }
    void wait() const {
        if (wait_) {
            wait_();
        }
    }

    // Memory for the pages that were taken, before anything is written there. Throws OutOfMemory, and there is as much
    // as before.
    void grow();
    // Does the copies on write of the step that was just placed, before its rows are computed: on the stream of the
    // backend that computes them, or at once where that is null.
    void copy_pages(const std::vector<PageCopy> & copies, ggml_backend_t stream = nullptr);
    // Gives the memory above the highest page in use or cached back.
    void trim();
    // Whether that is at least half of the memory touched, or memory beyond the budget: given back at every turn it
    // would be cleared anew by the system at every turn.
    bool is_trim_worthwhile() const;
    int64_t page_bytes() const {
        return storage_ ? static_cast<int64_t>(storage_->bytes_per_cell()) * pages_.page_size() : 0;
    }
    // Those that have memory, without the scratch page.
    int32_t n_pages_with_memory() const;
    int64_t committed_bytes() const { return storage_ ? static_cast<int64_t>(storage_->committed_bytes()) : 0; }

   private:
    PagedKv & pages_;
    std::unique_ptr<KvStorage> storage_;
    std::function<void()> wait_;
    int32_t touched_pages_ = 0;  // one past the highest since the last trim
};

}  // namespace orin
