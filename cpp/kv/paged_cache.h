// llama.cpp's KV cache over a pool: tokens go where the pool's block tables say, and K and V are the pool's storage.
#pragma once

#include <memory>

#include "kv_pool.h"
#include "llama-kv-cache.h"
#include "llama-model.h"

namespace orin {

// Whether sequences are kept as cells, too: stock attention reads these, paged attention does not.
enum class MirrorCells : bool { no, yes };

// The base refers to it for as long as it lives, so it comes first.
struct HparamsWithoutMemory {
    explicit HparamsWithoutMemory(const llama_hparams & model) : copy(model) { copy.no_alloc = true; }
    llama_hparams copy;
};

// Sequence ids of llama.cpp are those of the pool. What the pool knows is not told twice: the operations on sequences
// do nothing here.
class PagedCache : private HparamsWithoutMemory, public llama_kv_cache {
   public:
    PagedCache(KvPool & pool, MirrorCells mirror, const llama_model & of_model, const llama_memory_params & params,
               uint32_t n_sequences, const layer_filter_cb & filter);

    // Writes what the pool says into the cells, where they are mirrored.
    void mirror_cells(const llama_ubatch & ubatch);

    llama_memory_context_ptr init_batch(llama_batch_allocr & balloc, uint32_t n_ubatch, bool embd_all) override;
    llama_memory_context_ptr init_full() override;
    bool get_can_shift() const override { return false; }

    void clear(bool) override {}
    bool seq_rm(llama_seq_id, llama_pos, llama_pos) override { return true; }
    void seq_cp(llama_seq_id, llama_seq_id, llama_pos, llama_pos) override {}
    void seq_keep(llama_seq_id) override {}
    void seq_add(llama_seq_id, llama_pos, llama_pos, llama_pos) override {}
    void seq_div(llama_seq_id, llama_pos, llama_pos, int) override {}
    llama_pos seq_pos_min(llama_seq_id sequence) const override;
    llama_pos seq_pos_max(llama_seq_id sequence) const override;

   private:
    slot_info place(const llama_ubatch & ubatch) const;

    KvPool & pool_;
    MirrorCells mirror_;
};

// The step of one batch, and, while memory is reserved, the largest step there can be.
class PagedCacheContext : public llama_kv_cache_context {
   public:
    explicit PagedCacheContext(PagedCache & cache) : llama_kv_cache_context(&cache), cache_(cache) {}
    PagedCacheContext(PagedCache & cache, slot_info_vec_t places, std::vector<llama_ubatch> steps)
        : llama_kv_cache_context(&cache, std::move(places), std::move(steps)), cache_(cache) {}

    bool apply() override;
    int n_layers() const { return static_cast<int>(cache_.get_layer_ids().size()); }

   private:
    PagedCache & cache_;
};

}  // namespace orin
