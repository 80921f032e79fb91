#include "paged_hook.h"

#include <algorithm>
#include <stdexcept>

#include "paged_cache.h"

namespace orin {
namespace {

attention::Limits limits_of(const llama_hparams & hparams, const PagedHookConfig & config) {
    attention::Limits limits;
    limits.n_threads = config.n_threads;
    limits.n_tokens = config.max_step_tokens;
    for (uint32_t il = 0; il < hparams.n_layer_all; il++) {
        if (hparams.has_kv(il)) {
            limits.n_head = std::max(limits.n_head, static_cast<int32_t>(hparams.n_head(il)));
            limits.head_dim_k = std::max(limits.head_dim_k, static_cast<int32_t>(hparams.n_embd_head_k(il)));
            limits.head_dim_v = std::max(limits.head_dim_v, static_cast<int32_t>(hparams.n_embd_head_v(il)));
        }
    }
    return limits;
}

}  // namespace

llama_memory_i * PagedHook::create_memory(const llama_model & model, const llama_memory_params & params,
                                          const llama_cparams & cparams, const std::function<bool(int32_t)> & filter) {
    if (model.hparams.is_mla()) {
        refusal_ = "its values are part of its keys (latent attention)";
        return nullptr;
    }
    if (!cparams.causal_attn) {
        refusal_ = "its tokens see later ones";
        return nullptr;
    }
    refusal_.clear();
    if (config_.attention && !setup_) {
        const int32_t max_pages = config_.max_tokens / pool_.pages().page_size() + 1;
        setup_.reset(new PagedAttentionSetup{pool_, config_.max_sequences, max_pages,
                                             attention::Workspace(limits_of(model.hparams, config_))});
    }
    const MirrorCells mirror = config_.attention ? MirrorCells::no : MirrorCells::yes;
    return new PagedCache(pool_, mirror, model, params, cparams.n_seq_max, filter);
}

void PagedHook::graph_built(llm_graph_result & result, const llama_memory_context_i * memory) {
    const auto * paged = dynamic_cast<const PagedCacheContext *>(memory);
    if (paged == nullptr || !config_.attention) {
        return;
    }
    try {
        if (use_paged_attention(result, *setup_) < paged->n_layers()) {
            throw std::runtime_error("it has attention that is not computed in pages");
        }
    } catch (const std::runtime_error & error) {
        refusal_ = error.what();
        throw;
    }
}

}  // namespace orin
