// llama.cpp's KV cache over a pool: tokens go where the pool's block tables say, and K and V are the pool's storage.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kv_pool.h"
#include "llama-kv-cache.h"
#include "llama-model.h"
#include "paged_layer.h"

namespace orin {

// Whether sequences are kept as cells, too: stock attention reads these, paged attention does not.
enum class MirrorCells : bool { no, yes };

struct PagedCacheConfig {
    MirrorCells mirror = MirrorCells::no;
    bool offload = false;        // K and V are on the device of their layer
    int32_t idle_sequence = -1;  // its tokens go to the scratch page; -1: there is none
    int32_t window = 0;          // tokens that attention looks at, in all layers of the cache; 0: all tokens
    bool is_prefill = false;     // of a context whose steps may have several tokens of a sequence
    uint32_t n_sequences = 1;
    llama_memory_i::layer_filter_cb filter;  // layers of the model that the cache has; null: all
    llama_memory_i::layer_reuse_cb reuse;    // see orin_create_memory
};

// The base refers to it for as long as it lives, so it comes first.
struct HparamsWithoutMemory {
    explicit HparamsWithoutMemory(const llama_hparams & model) : copy(model) { copy.no_alloc = true; }
    llama_hparams copy;
};

// Sequence ids of llama.cpp are those of the pool. What the pool knows is not told twice: the operations on sequences
// do nothing here. Before the cache is used it has to be given storage.
class PagedCache : private HparamsWithoutMemory, public llama_kv_cache {
   public:
    PagedCache(KvPool & pool, const PagedCacheConfig & config, const llama_model & of_model,
               const llama_memory_params & params);

    std::vector<KvLayerSize> layer_sizes() const;
    // Layers from first_layer on.
    void use_storage(const KvStorage & storage, size_t first_layer);
    std::vector<PagedLayer> paged_layers() const;
    bool is_prefill() const { return is_prefill_; }

    // Writes what the pool says into the cells, where they are mirrored.
    void mirror_cells(const llama_ubatch & ubatch);

    // The steps that a batch makes, and where their tokens go.
    std::pair<slot_info_vec_t, std::vector<llama_ubatch>> split(llama_batch_allocr & balloc, uint32_t n_ubatch) const;

    llama_memory_context_ptr init_batch(llama_batch_allocr & balloc, uint32_t n_ubatch, bool embd_all) override;
    llama_memory_context_ptr init_full() override;
    bool get_can_shift() const override { return false; }

    void clear(bool) override {}
    bool seq_rm(llama_seq_id, llama_pos, llama_pos) override { return true; }
    void seq_cp(llama_seq_id, llama_seq_id, llama_pos, llama_pos) override {}
    void seq_keep(llama_seq_id) override {}
    void seq_add(llama_seq_id, llama_pos, llama_pos, llama_pos) override {}
    void seq_div(llama_seq_id, llama_pos, llama_pos, int) override {}
    // Nothing for llama.cpp to compare a batch with: it would take what a step under way places for missing.
    llama_pos seq_pos_min(llama_seq_id) const override { return -1; }
    llama_pos seq_pos_max(llama_seq_id) const override { return -1; }

   private:
    slot_info place(const llama_ubatch & ubatch) const;

    KvPool & pool_;
    const MirrorCells mirror_;
    const int32_t window_;
    const int32_t idle_sequence_;
    const bool is_prefill_;
};

// The step of one batch, and, while memory is reserved, the largest step there can be.
class PagedCacheContext : public llama_kv_cache_context {
   public:
    explicit PagedCacheContext(PagedCache & cache) : llama_kv_cache_context(&cache), cache_(cache) {}
    PagedCacheContext(PagedCache & cache, slot_info_vec_t places, std::vector<llama_ubatch> steps)
        : llama_kv_cache_context(&cache, std::move(places), std::move(steps)), cache_(cache) {}

    bool apply() override;
    const PagedCache & cache() const { return cache_; }
    // Null while memory is reserved.
    const llama_ubatch * step() const { return ubatches.empty() ? nullptr : &ubatches[i_cur]; }

   private:
    PagedCache & cache_;
};

}  // namespace orin
