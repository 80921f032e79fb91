#include "paged_hook.h"

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "gather_node.h"
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

bool is_cpu(ggml_backend_dev_t device) {
    return ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU;
}

#ifdef ORIN_CUDA
DeviceAttentionLimits device_limits_of(const llama_hparams & hparams, const llama_memory_params & params,
                                       const PagedHookConfig & config) {
    DeviceAttentionLimits limits;
    limits.k_type = params.type_k;
    limits.v_type = params.type_v;
    limits.n_tokens = config.max_step_tokens;
    limits.max_single_tokens = config.max_sequences;
    for (uint32_t il = 0; il < hparams.n_layer_all; il++) {
        if (hparams.n_head_kv(il) > 0) {
            limits.layers.push_back(
                {static_cast<int32_t>(hparams.n_head(il)), static_cast<int32_t>(hparams.n_head_kv(il)),
                 static_cast<int32_t>(hparams.n_embd_head_k(il)), static_cast<int32_t>(hparams.n_embd_head_v(il))});
        }
    }
    return limits;
}
#endif

// The device that computes all layers, or null.
ggml_backend_dev_t device_of(const llama_model & model) {
    ggml_backend_dev_t device = model.dev_layer(0);
    for (uint32_t il = 1; il < model.hparams.n_layer_all; il++) {
        if (model.dev_layer(static_cast<int>(il)) != device) {
            return nullptr;
        }
    }
    return device;
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

// Null where the memory is not ours.
const PagedCacheContext * paged_context(const llama_memory_context_i * memory) {
    const auto * pair = dynamic_cast<const llama_kv_cache_iswa_context *>(memory);
    return dynamic_cast<const PagedCacheContext *>(pair == nullptr ? memory : pair->get_base());
}

}  // namespace

std::vector<PagedLayer> paged_layers(const llama_memory_context_i * memory) {
    const PagedCacheContext * context = paged_context(memory);
    if (context == nullptr) {
        return {};
    }
    std::vector<PagedLayer> layers = context->cache().paged_layers();
    if (const auto * pair = dynamic_cast<const llama_kv_cache_iswa_context *>(memory)) {
        const auto & windowed = dynamic_cast<const PagedCacheContext &>(*pair->get_swa());
        const std::vector<PagedLayer> more = windowed.cache().paged_layers();
        layers.insert(layers.end(), more.begin(), more.end());
    }
    return layers;
}

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
    device_ = device_of(model);
    refusal_ = device_ == nullptr ? "its layers are computed on several devices (-ngl)" : refusal_of(hparams, cparams);
    if (!refusal_.empty()) {
        throw std::runtime_error(refusal_);
    }
    if (config_.attention && !setup_) {
        make_setup(model, params);
    }
    PagedCacheConfig cache;
    cache.offload = !is_cpu(device_);
    cache.idle_sequence = config_.idle_sequence;
    cache.is_prefill = static_cast<int32_t>(cparams.n_ubatch) > config_.max_sequences;
    cache.mirror = config_.attention ? MirrorCells::no : MirrorCells::yes;
    cache.n_sequences = cparams.n_seq_max;
    cache.reuse = reuse;
    cache.filter = [&](int32_t il) { return (!filter || filter(il)) && !hparams.is_swa(static_cast<uint32_t>(il)); };
    auto full = std::make_unique<PagedCache>(pool_, cache, model, params);
    if (hparams.swa_type == LLAMA_SWA_TYPE_NONE) {
        share_storage({full.get()});
        return full.release();
    }
    cache.window = static_cast<int32_t>(hparams.n_swa);
    cache.filter = [&](int32_t il) { return (!filter || filter(il)) && hparams.is_swa(static_cast<uint32_t>(il)); };
    auto windowed = std::make_unique<PagedCache>(pool_, cache, model, params);
    share_storage({full.get(), windowed.get()});
    return new PagedCachePair(std::move(full), std::move(windowed));
}

void PagedHook::make_setup(const llama_model & model, [[maybe_unused]] const llama_memory_params & params) {
    const llama_hparams & hparams = model.hparams;
    auto setup = std::make_unique<PagedAttentionSetup>();
    setup->pool = &pool_;
    setup->max_sequences = config_.max_sequences;
    setup->max_pages = config_.max_tokens / pool_.pages().page_size() + 1;
    setup->idle_sequence = config_.idle_sequence;
    setup->window = window_of_all_layers(model);
    if (is_cpu(device_)) {
        setup->workspace = std::make_unique<attention::Workspace>(limits_of(hparams, config_));
    } else {
#ifdef ORIN_CUDA
        register_paged_attention_op();
        register_gather_ops();
        setup->gather_tokens = gather_tokens_;
        setup->max_gathered = config_.gather && gather_tokens_ > 0 ? GGML_PAD(int64_t{config_.max_tokens}, 256) : 0;
        const DeviceAttentionLimits limits = device_limits_of(hparams, params, config_);
        setup->device = std::make_unique<DeviceAttention>(make_device_attention(device_, limits));
#endif
    }
    setup_ = std::move(setup);
}

// The layers of all caches lie in one storage, one cache after the other.
void PagedHook::share_storage(std::initializer_list<PagedCache *> caches) {
    std::vector<KvLayerSize> sizes;
    for (const PagedCache * cache : caches) {
        const std::vector<KvLayerSize> more = cache->layer_sizes();
        sizes.insert(sizes.end(), more.begin(), more.end());
    }
    // Upstream's attention reads all cells, and hides what is in most by its mask.
    const char * no_growth = !config_.growth      ? "growth is switched off"
                             : !config_.attention ? "attention, which growth needs, is switched off"
                                                  : "";
    const KvStorage & storage = pool_.storage_for(sizes, device_, no_growth);
    size_t first_layer = 0;
    for (PagedCache * cache : caches) {
        cache->use_storage(storage, first_layer);
        first_layer += cache->layer_sizes().size();
    }
}

void PagedHook::graph_built(llm_graph_result & result, const llama_memory_context_i * memory) {
    const std::vector<PagedLayer> layers = config_.attention ? paged_layers(memory) : std::vector<PagedLayer>();
    if (layers.empty()) {
        return;
    }
    try {
        const PagedCacheContext & context = *paged_context(memory);
        gathers_ |= use_paged_attention(result, *setup_, layers, context.cache().is_prefill(), context.step()) > 0;
    } catch (const std::runtime_error & error) {
        refusal_ = error.what();
        throw;
    }
}

}  // namespace orin
