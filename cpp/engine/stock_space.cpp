#include "stock_space.h"

namespace orin {

void StockSpace::truncate(int32_t n_keep) {
    if (n_keep < static_cast<int32_t>(tokens_.size())) {
        tokens_.resize(static_cast<size_t>(n_keep));
        fit_cache();
    }
}

// Recurrent state cannot be cut back, so such a model starts over (the caller computes what is then missing).
void StockSpace::fit_cache() {
    llama_memory_t memory = llama_get_memory(context_.get());
    if (tokens_.empty() || !llama_memory_seq_rm(memory, 0, static_cast<llama_pos>(tokens_.size()), -1)) {
        llama_memory_clear(memory, false);
        tokens_.clear();
    }
}

}  // namespace orin
