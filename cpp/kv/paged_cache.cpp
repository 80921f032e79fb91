#include "paged_cache.h"

#include "llama-batch.h"

namespace orin {
namespace {

constexpr bool v_transposed = false;  // rows of V are cells, as flash attention and ours read them
constexpr bool offload = false;
constexpr bool unified = true;

}  // namespace

PagedCache::PagedCache(KvPool & pool, MirrorCells mirror, const llama_model & of_model,
                       const llama_memory_params & params, uint32_t n_sequences, const layer_filter_cb & filter)
    : HparamsWithoutMemory(of_model.hparams),
      llama_kv_cache(of_model, copy, params.type_k, params.type_v, v_transposed, offload, unified,
                     static_cast<uint32_t>(pool.n_cells()), n_sequences, 1, 0, LLAMA_SWA_TYPE_NONE, nullptr, filter,
                     nullptr, nullptr),
      pool_(pool),
      mirror_(mirror) {
    std::vector<KvLayerSize> sizes;
    for (const kv_layer & layer : layers) {
        sizes.push_back({layer.k->nb[1], layer.v->nb[1]});
    }
    KvStorage & storage = pool.storage_for(sizes);
    for (size_t i = 0; i < layers.size(); i++) {
        layers[i].k->data = storage.layer(i).k;
        layers[i].v->data = storage.layer(i).v;
        layers[i].k->buffer = layers[i].v->buffer = storage.buffer();
    }
}

llama_kv_cache::slot_info PagedCache::place(const llama_ubatch & ubatch) const {
    slot_info places;
    places.s0 = places.s1 = 0;
    places.resize(1);
    places.strm[0] = 0;
    places.idxs[0].reserve(ubatch.n_tokens);
    for (uint32_t i = 0; i < ubatch.n_tokens; i++) {
        places.idxs[0].push_back(static_cast<uint32_t>(pool_.pages().cell(ubatch.seq_id[i][0], ubatch.pos[i])));
    }
    return places;
}

llama_memory_context_ptr PagedCache::init_batch(llama_batch_allocr & balloc, uint32_t n_ubatch, bool) {
    slot_info_vec_t places;
    std::vector<llama_ubatch> ubatches;
    balloc.split_reset();
    for (llama_ubatch ubatch = balloc.split_simple(n_ubatch); ubatch.n_tokens > 0;
         ubatch = balloc.split_simple(n_ubatch)) {
        places.push_back(place(ubatch));
        ubatches.push_back(std::move(ubatch));
    }
    return std::make_unique<PagedCacheContext>(*this, std::move(places), std::move(ubatches));
}

llama_memory_context_ptr PagedCache::init_full() {
    return std::make_unique<PagedCacheContext>(*this);
}

llama_pos PagedCache::seq_pos_min(llama_seq_id sequence) const {
    return seq_pos_max(sequence) >= 0 ? 0 : -1;
}

llama_pos PagedCache::seq_pos_max(llama_seq_id sequence) const {
    return pool_.pages().is_open(sequence) ? pool_.pages().n_committed(sequence) - 1 : -1;
}

void PagedCache::mirror_cells(const llama_ubatch & ubatch) {
    if (mirror_ == MirrorCells::no) {
        return;
    }
    llama_kv_cells & cells = v_cells[0];
    cells.reset();
    for (uint32_t s = 0; s < ubatch.n_seqs_unq; s++) {
        const llama_seq_id sequence = ubatch.seq_id_unq[s];
        for (int32_t position = 0; position < pool_.pages().n_tokens(sequence); position++) {
            const auto cell = static_cast<uint32_t>(pool_.pages().cell(sequence, position));
            if (cells.is_empty(cell)) {
                cells.pos_set(cell, position);
            }
            cells.seq_add(cell, sequence);
        }
    }
}

bool PagedCacheContext::apply() {
    cache_.mirror_cells(ubatches[i_cur]);
    n_kv = static_cast<int32_t>(cache_.get_size());  // constant, so that a graph outlives the growth of the context
    return true;
}

}  // namespace orin
