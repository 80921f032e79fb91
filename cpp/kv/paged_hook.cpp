#include "paged_hook.h"

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "paged_cache_pair.h"

namespace orin {
namespace {

attention::Limits limits_of(const llama_hparams & hparams, const PagedHookConfig & config) {
    attention::Limits limits;
    limits.n_threads = config.n_threads;
    limits.n_tokens = config.max_step_tokens;
    for (uint32_t il = 0; il < hparams.n_layer_all; il++) {
        limits.n_head = std::max(limits.n_head, static_cast<int32_t>(hparams.n_head(il)));
        limits.head_dim_k = std::max(limits.head_dim_k, static_cast<int32_t>(hparams.n_embd_head_k(il)));
        limits.head_dim_v = std::max(limits.head_dim_v, static_cast<int32_t>(hparams.n_embd_head_v(il)));
    }
    return limits;
}

// Why a model's attention cannot be computed in pages, or "".
std::string refusal_of(const llama_hparams & hparams, const llama_cparams & cparams) {
    if (hparams.is_mla()) {
        return "its values are part of its keys (latent attention)";
    }
    if (!cparams.causal_attn) {
        return "its tokens see later ones";
    }
    if (hparams.swa_type != LLAMA_SWA_TYPE_NONE &&
        (hparams.swa_type != LLAMA_SWA_TYPE_STANDARD || static_cast<int32_t>(hparams.n_swa) <= 0)) {
        return "its windows do not slide with the token";
    }
    return "";
}

// The layers of all caches lie in one storage, one cache after the other.
void share_storage(KvPool & pool, std::initializer_list<PagedCache *> caches) {
    std::vector<KvLayerSize> sizes;
    for (const PagedCache * cache : caches) {
        const std::vector<KvLayerSize> more = cache->layer_sizes();
        sizes.insert(sizes.end(), more.begin(), more.end());
    }
    const KvStorage & storage = pool.storage_for(sizes);
    size_t first_layer = 0;
    for (PagedCache * cache : caches) {
        cache->use_storage(storage, first_layer);
        first_layer += cache->layer_sizes().size();
    }
}

// Empty where the memory is not ours.
std::vector<PagedLayer> layers_of(const llama_memory_context_i * memory) {
    const auto of_cache = [](const llama_memory_context_i * context) {
        const auto * paged = dynamic_cast<const PagedCacheContext *>(context);
        return paged == nullptr ? std::vector<PagedLayer>() : paged->cache().paged_layers();
    };
    const auto * pair = dynamic_cast<const llama_kv_cache_iswa_context *>(memory);
    if (pair == nullptr) {
        return of_cache(memory);
    }
    std::vector<PagedLayer> layers = of_cache(pair->get_base());
    const std::vector<PagedLayer> windowed = of_cache(pair->get_swa());
    layers.insert(layers.end(), windowed.begin(), windowed.end());
    return layers;
}

}  // namespace

int32_t window_of_all_layers(const llama_model & model) {
    const llama_hparams & hparams = model.hparams;
    for (uint32_t il = 0; il < hparams.n_layer_all; il++) {
        if (!hparams.is_swa(il)) {
            return 0;
        }
    }
    return hparams.swa_type == LLAMA_SWA_TYPE_STANDARD ? static_cast<int32_t>(hparams.n_swa) : 0;
}

llama_memory_i * PagedHook::create_memory(const llama_model & model, const llama_memory_params & params,
                                          const llama_cparams & cparams, const std::function<bool(int32_t)> & filter,
                                          const std::function<int32_t(int32_t)> & reuse) {
    const llama_hparams & hparams = model.hparams;
    refusal_ = refusal_of(hparams, cparams);
    if (!refusal_.empty()) {
        throw std::runtime_error(refusal_);
    }
    if (config_.attention && !setup_) {
        const int32_t max_pages = config_.max_tokens / pool_.pages().page_size() + 1;
        setup_.reset(new PagedAttentionSetup{pool_, config_.max_sequences, max_pages,
                                             attention::Workspace(limits_of(hparams, config_))});
    }
    PagedCacheConfig cache;
    cache.mirror = config_.attention ? MirrorCells::no : MirrorCells::yes;
    cache.n_sequences = cparams.n_seq_max;
    cache.reuse = reuse;
    cache.filter = [&](int32_t il) { return (!filter || filter(il)) && !hparams.is_swa(static_cast<uint32_t>(il)); };
    auto full = std::make_unique<PagedCache>(pool_, cache, model, params);
    if (hparams.swa_type == LLAMA_SWA_TYPE_NONE) {
        share_storage(pool_, {full.get()});
        return full.release();
    }
    cache.window = static_cast<int32_t>(hparams.n_swa);
    cache.filter = [&](int32_t il) { return (!filter || filter(il)) && hparams.is_swa(static_cast<uint32_t>(il)); };
    auto windowed = std::make_unique<PagedCache>(pool_, cache, model, params);
    share_storage(pool_, {full.get(), windowed.get()});
    return new PagedCachePair(std::move(full), std::move(windowed));
}

void PagedHook::graph_built(llm_graph_result & result, const llama_memory_context_i * memory) {
    const std::vector<PagedLayer> layers = config_.attention ? layers_of(memory) : std::vector<PagedLayer>();
    if (layers.empty()) {
        return;
    }
    try {
        use_paged_attention(result, *setup_, layers);
    } catch (const std::runtime_error & error) {
        refusal_ = error.what();
        throw;
    }
}

}  // namespace orin
