#include "paged_cache.h"

#include "llama-batch.h"

namespace orin {
namespace {

constexpr bool v_transposed = false;  // rows of V are cells, as flash attention and ours read them
constexpr bool unified = true;

}  // namespace

PagedCache::PagedCache(KvPool & pool, const PagedCacheConfig & config, const llama_model & of_model,
                       const llama_memory_params & params)
    : HparamsWithoutMemory(of_model.hparams),
      llama_kv_cache(of_model, copy, params.type_k, params.type_v, v_transposed, config.offload, unified,
                     static_cast<uint32_t>(pool.n_cells()), config.n_sequences, 1, static_cast<uint32_t>(config.window),
                     config.window == 0 ? LLAMA_SWA_TYPE_NONE : LLAMA_SWA_TYPE_STANDARD, nullptr, config.filter,
                     config.reuse, nullptr),
      pool_(pool),
      mirror_(config.mirror),
      window_(config.window),
      idle_sequence_(config.idle_sequence),
      is_prefill_(config.is_prefill) {}

std::vector<KvLayerSize> PagedCache::layer_sizes() const {
    std::vector<KvLayerSize> sizes;
    for (const kv_layer & layer : layers) {
        sizes.push_back({layer.k->nb[1], layer.v->nb[1]});
    }
    return sizes;
}

void PagedCache::use_storage(const KvStorage & storage, size_t first_layer) {
    for (size_t i = 0; i < layers.size(); i++) {
        layers[i].k->data = storage.layer(first_layer + i).k;
        layers[i].v->data = storage.layer(first_layer + i).v;
        layers[i].k->buffer = layers[i].v->buffer = storage.buffer();
    }
}

std::vector<PagedLayer> PagedCache::paged_layers() const {
    std::vector<PagedLayer> result;
    for (const kv_layer & layer : layers) {
        result.push_back({layer.k, layer.v, window_, 0});
    }
    for (const auto & [model_layer, index] : map_layer_ids) {
        PagedLayer & layer = result[static_cast<size_t>(index)];
        layer.n_readers += layer.k->ne[0] > 0;  // some layers have no heads
    }
    return result;
}

llama_kv_cache::slot_info PagedCache::place(const llama_ubatch & ubatch) const {
    slot_info places;
    places.s0 = places.s1 = 0;
    places.resize(1);
    places.strm[0] = 0;
    places.idxs[0].reserve(ubatch.n_tokens);
    const PagedKv & pages = pool_.pages();
    for (uint32_t i = 0; i < ubatch.n_tokens; i++) {
        const llama_seq_id sequence = ubatch.seq_id[i][0];
        const int64_t cell = sequence == idle_sequence_
                                 ? int64_t{scratch_page} * pages.page_size() + ubatch.pos[i] % pages.page_size()
                                 : pages.cell(sequence, ubatch.pos[i]);
        places.idxs[0].push_back(static_cast<uint32_t>(cell));
    }
    return places;
}

std::pair<llama_kv_cache::slot_info_vec_t, std::vector<llama_ubatch>> PagedCache::split(llama_batch_allocr & balloc,
                                                                                        uint32_t n_ubatch) const {
    slot_info_vec_t places;
    std::vector<llama_ubatch> steps;
    balloc.split_reset();
    for (llama_ubatch step = balloc.split_simple(n_ubatch); step.n_tokens > 0; step = balloc.split_simple(n_ubatch)) {
        places.push_back(place(step));
        steps.push_back(std::move(step));
    }
    return {std::move(places), std::move(steps)};
}

llama_memory_context_ptr PagedCache::init_batch(llama_batch_allocr & balloc, uint32_t n_ubatch, bool) {
    auto [places, steps] = split(balloc, n_ubatch);
    return std::make_unique<PagedCacheContext>(*this, std::move(places), std::move(steps));
}

llama_memory_context_ptr PagedCache::init_full() {
    return std::make_unique<PagedCacheContext>(*this);
}

void PagedCache::mirror_cells(const llama_ubatch & ubatch) {
    if (mirror_ == MirrorCells::no) {
        return;
    }
    llama_kv_cells & cells = v_cells[0];
    cells.reset();
    const PagedKv & pages = pool_.pages();
    for (uint32_t s = 0; s < ubatch.n_seqs_unq; s++) {
        const llama_seq_id sequence = ubatch.seq_id_unq[s];
        if (sequence == idle_sequence_) {
            continue;
        }
        const std::vector<PageId> & table = pages.block_table(sequence);
        for (int32_t position = 0; position < pages.n_tokens(sequence); position++) {
            if (table[static_cast<size_t>(position / pages.page_size())] == scratch_page) {
                continue;  // behind the window
            }
            const auto cell = static_cast<uint32_t>(pages.cell(sequence, position));
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
