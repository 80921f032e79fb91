// llama.cpp's pair of KV caches, one for layers that attend to all tokens and one for those with a sliding window, over
// one pool: both have every token in the same cell.
#pragma once

#include <memory>

#include "llama-kv-cache-iswa.h"
#include "paged_cache.h"

namespace orin {

class PagedCachePair : public llama_kv_cache_iswa {
   public:
    PagedCachePair(std::unique_ptr<PagedCache> full, std::unique_ptr<PagedCache> windowed);

    llama_memory_context_ptr init_batch(llama_batch_allocr & balloc, uint32_t n_ubatch, bool embd_all) override;

   private:
    PagedCache & full_;
    PagedCache & windowed_;
};

}  // namespace orin
