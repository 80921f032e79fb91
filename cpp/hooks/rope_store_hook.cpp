#include "rope_store_hook.h"

#include <new>
#include <optional>
#include <utility>

#include "ggml.h"
#include "include/orin_hooks.h"
#include "rope_node.h"
#include "rope_store_match.h"
#include "rope_store_node.h"

namespace orin {
namespace {

// Where a layer's cells lie, or null where that is no GPU.
ggml_backend_buffer_type_t gpu_memory_of(const PagedLayer & layer) {
    if (layer.k->buffer == nullptr || ggml_backend_buffer_is_host(layer.k->buffer)) {
        return nullptr;
    }
    ggml_backend_dev_t device = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(layer.k->buffer));
    return device == nullptr ? nullptr : ggml_backend_dev_buffer_type(device);
}

}  // namespace

RopeStoreHook::RopeStoreHook(int32_t n_positions) : n_positions_(n_positions) {
#ifdef ORIN_CUDA
    register_rope_store_op();
#endif
}

void RopeStoreHook::graph_built(ggml_context * context, ggml_cgraph & graph, const std::vector<PagedLayer> & layers) {
    const std::lock_guard<std::mutex> lock(lock_);
    RopeStoreReport report;
    for (const PagedLayer & layer : layers) {
        if (layer.n_readers == 0 || gpu_memory_of(layer) == nullptr) {
            continue;
        }
        std::string why = serve(context, graph, layer);
        if (why.empty()) {
            report.n_layers++;
        } else if (report.n_stock++ == 0) {
            report.reason = layer.k->name + (": " + std::move(why));
        }
    }
    report_ = std::move(report);
}

std::string RopeStoreHook::serve(ggml_context * context, ggml_cgraph & graph, const PagedLayer & layer) {
    const std::variant<RopeStoreSite, std::string> match = match_rope_store(graph, layer);
    if (const auto * why = std::get_if<std::string>(&match)) {
        return *why;
    }
    const auto & site = std::get<RopeStoreSite>(match);
    try {
        ggml_tensor * table = table_for(*site.rope, gpu_memory_of(layer));
        if (table == nullptr) {
            return "its RoPE has no table";
        }
        ggml_tensor * node = rope_store_node(context, site, layer, table);
        if (!orin_cuda_custom_supports(node)) {
            return "no kernel has its sizes and types";
        }
        replace_by_rope_store(graph, site, node);
        return "";
    } catch (const std::bad_alloc &) {
        return "the GPU has no memory for its RoPE table";
    }
}

ggml_tensor * RopeStoreHook::table_for(const ggml_tensor & rope, ggml_backend_buffer_type_t memory) {
    const ggml_tensor * weights = rope.src[2];
    if (weights != nullptr && !is_weight(*weights)) {
        return nullptr;
    }
    const std::optional<RopeParams> params =
        rope_params(rope, weights == nullptr ? std::vector<float>() : factors_in(*weights));
    if (!params) {
        return nullptr;
    }
    for (const auto & table : tables_) {
        if (table->params() == *params && table->memory() == memory) {
            return table->tensor();
        }
    }
    return tables_.emplace_back(std::make_unique<DeviceRopeTable>(*params, n_positions_, memory))->tensor();
}

const std::vector<float> & RopeStoreHook::factors_in(const ggml_tensor & weights) {
    const auto [entry, is_new] = factors_.try_emplace(weights.data);
    if (is_new) {
        entry->second.resize(static_cast<size_t>(weights.ne[0]));
        ggml_backend_tensor_get(&weights, entry->second.data(), 0, ggml_nbytes(&weights));
    }
    return entry->second;
}

RopeStoreReport RopeStoreHook::report() const {
    const std::lock_guard<std::mutex> lock(lock_);
    return report_;
}

size_t RopeStoreHook::table_bytes() const {
    const std::lock_guard<std::mutex> lock(lock_);
    size_t bytes = 0;
    for (const auto & table : tables_) {
        bytes += table->bytes();
    }
    return bytes;
}

uint64_t RopeStoreHook::n_outside() const {
    const std::lock_guard<std::mutex> lock(lock_);
    uint64_t count = 0;
    for (const auto & table : tables_) {
        count += table->n_outside();
    }
    return count;
}

}  // namespace orin
