#include "paged_cache_pair.h"

#include "llama-batch.h"

namespace orin {

PagedCachePair::PagedCachePair(std::unique_ptr<PagedCache> full, std::unique_ptr<PagedCache> windowed)
    : llama_kv_cache_iswa(std::move(full), std::move(windowed)),
      full_(static_cast<PagedCache &>(*get_base())),
      windowed_(static_cast<PagedCache &>(*get_swa())) {}

llama_memory_context_ptr PagedCachePair::init_batch(llama_batch_allocr & balloc, uint32_t n_ubatch, bool) {
    auto [places, steps] = full_.split(balloc, n_ubatch);
    return std::make_unique<llama_kv_cache_iswa_context>(std::make_unique<PagedCacheContext>(full_, places, steps),
                                                         std::make_unique<PagedCacheContext>(windowed_, places, steps),
                                                         steps);
}

}  // namespace orin
