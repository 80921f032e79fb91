#include "matrix_hook.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "../hooks/rope_store_node.h"
#include "ggml-impl.h"
#include "llama-graph.h"
#include "matrix_edit.h"
#include "plan_words.h"
#include "product_node.h"

#ifdef ORIN_CUDA
#include "../../cuda/multiprocessors.h"
#include "../kv/device_ordinal.h"
#include "../kv/paged_node.h"
#include "activation_node.h"
#include "weight_type.h"
#endif

namespace orin {
namespace {

// Tensors that are left for hooks behind this one.
constexpr size_t tensors_of_others = 32;

// A graph that was just built has room for nodes, and its context for tensors.
bool has_room(ggml_context * context, const ggml_cgraph & graph, size_t n_tensors) {
    const size_t n = n_tensors + tensors_of_others;
    return static_cast<size_t>(graph.n_nodes) + n <= static_cast<size_t>(graph.size) &&
           ggml_used_mem(context) + n * ggml_tensor_overhead() <= ggml_get_mem_size(context);
}

// Only contexts that are asked for embeddings read them, and an engine's are not. The norm that they are is a result of
// the graph no more.
void drop_embeddings(llm_graph_result & result) {
    if (result.t_embd != nullptr && result.t_embd != result.t_logits) {
        result.t_embd->flags &= ~GGML_TENSOR_FLAG_OUTPUT;
        result.t_embd = nullptr;
    }
}

// What turns and stores asks for the weights of the product behind its attention.
void prefetch_behind_attention(ggml_cgraph & graph, const MatrixSetup & setup) {
    ggml_tensor * before = nullptr;
    for (int i = 0; i < graph.n_nodes; i++) {
        ggml_tensor & node = *graph.nodes[i];
        const ggml_tensor * weights = before == nullptr ? nullptr : first_weights(node);
        if (is_rope_store(node)) {
            before = &node;
        } else if (weights != nullptr) {
            prefetch_in_rope_store(*before, *weights, setup.prefetch_bytes(before->ne[2]));
            before = nullptr;
        }
    }
}

// Lets attention give its result as rows, where it can.
bool write_rows(ggml_tensor & node, MatrixRows rows) {
#ifdef ORIN_CUDA
    return attention_writes_rows(node, static_cast<cuda::RowFormat>(rows));
#else
    (void)node;
    (void)rows;
    return false;
#endif
}

}  // namespace

MatrixHook::MatrixHook(ggml_backend_dev_t device, const MatrixChoices & choices) : device_(device) {
    setup_.choices = choices;
#ifdef ORIN_CUDA
    const cudaError_t error = cuda::count_multiprocessors(device_ordinal(device), setup_.n_multiprocessors);
    if (error != cudaSuccess) {
        throw std::runtime_error(std::string("the GPU does not tell its multiprocessors: ") +
                                 cudaGetErrorString(error));
    }
    register_activation_op();
    register_product_op();
#endif
}

bool MatrixHook::is_weight(const ggml_tensor & tensor) const {
    return tensor.op == GGML_OP_NONE && tensor.view_src == nullptr && tensor.buffer != nullptr &&
           ggml_backend_buffer_get_usage(tensor.buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS &&
           !ggml_backend_buffer_is_host(tensor.buffer) &&
           ggml_backend_buft_get_device(ggml_backend_buffer_get_type(tensor.buffer)) == device_;
}

void MatrixHook::graph_built(llm_graph_result & result) {
    const std::lock_guard<std::mutex> lock(lock_);
    drop_embeddings(result);
    ggml_context * context = result.get_ctx();
    ggml_cgraph & graph = *result.get_gf();
    std::unordered_map<const ggml_tensor *, std::string> left;  // products, and why
    bool is_in_use = report_.is_in_use;
    const MatrixServices services = {
        [&](const ggml_tensor & product) -> std::variant<MatrixRows, std::string> {
            is_in_use = is_in_use || std::holds_alternative<MatrixRows>(rows_alone(product));
            const auto found = left.find(&product);
            return found == left.end() ? rows_of(product) : found->second;
        },
        [&](const ggml_tensor & tensor) { return is_weight(tensor); },
        [](const ggml_tensor & node, MatrixRows rows) {
            ggml_tensor trial = node;
            return write_rows(trial, rows);
        },
    };
    for (;;) {
        const MatrixPlan plan = match_matrices(graph, services);
        const auto leave = [&](const MatrixSite & site, const char * why) {
            for (const MatrixPart & part : site.parts) {
                left[part.product] = why;
            }
        };
        const auto leave_all = [&](const char * why) {
            for (const MatrixSite & site : plan.sites) {
                leave(site, why);
            }
        };
        if (!plan.sites.empty() && !has_room(context, graph, MatrixEdit::count_tensors(plan))) {
            leave_all("the graph has no room for more nodes");
            continue;
        }
        MatrixEdit edit(context, plan, setup_);
        const std::vector<const MatrixSite *> unsupported = edit.unsupported();
        if (!unsupported.empty()) {
            for (const MatrixSite * site : unsupported) {
                leave(*site, "no kernel has its sizes together with what is next to it");
            }
            continue;
        }
        if (!has_memory_for(edit.product_nodes())) {
            leave_all("the GPU has no memory for what kernels work in");
            continue;
        }
        edit.apply(graph, write_rows);
        prefetch_behind_attention(graph, setup_);
        result.t_logits = edit.now(result.t_logits);
        result.t_h_nextn = edit.now(result.t_h_nextn);
        for (ggml_tensor *& input : result.t_layer_inp) {
            input = edit.now(input);
        }
        report_ = {plan.n_served, plan.n_stock, plan.reason, words_of(plan), is_in_use || plan.n_served > 0, 0};
        return;
    }
}

MatrixReport MatrixHook::report() const {
    const std::lock_guard<std::mutex> lock(lock_);
    return report_;
}

#ifdef ORIN_CUDA

std::variant<MatrixRows, std::string> MatrixHook::rows_of(const ggml_tensor & product) const {
    const ggml_tensor & weights = *product.src[0];
    const std::optional<cuda::WeightType> type = cuda_weight_type(weights.type);
    if (!type) {
        return std::string("no kernel reads ") + ggml_type_name(weights.type);
    }
    cuda::MatrixParams params{};
    params.n_tokens = static_cast<int32_t>(std::max(int64_t{1}, product.ne[1]));
    params.n_matrices = 1;
    params.matrices[0] = {
        *type,   weights.data, static_cast<int64_t>(weights.nb[1]), static_cast<int32_t>(weights.ne[1]),
        nullptr, nullptr};
    const auto can_read = [&](MatrixRows rows) {
        params.input = {static_cast<cuda::RowFormat>(rows), static_cast<int32_t>(weights.ne[0]), nullptr};
        return can_compute(params);
    };
    const MatrixRows of_vector = *type == cuda::WeightType::f16 ? MatrixRows::f32 : MatrixRows::int8;
    MatrixChoices choices = setup_.choices;
    MatrixForm form = matrix_form(choices, params.n_tokens, {*type});
    if (form == MatrixForm::vector) {
        if (can_read(of_vector)) {
            return of_vector;
        }
        choices.vector_tokens.fill(0);
        form = matrix_form(choices, params.n_tokens, {*type});
    }
    if (form == MatrixForm::product && can_read(MatrixRows::f16)) {
        return MatrixRows::f16;
    }
    return std::string(form == MatrixForm::stock ? "so many tokens are llama.cpp's" : "no kernel has its sizes");
}

bool MatrixHook::has_memory_for(const std::vector<const ggml_tensor *> & product_nodes) {
    constexpr size_t alignment = 256;
    MatrixMemory needed = {0, 0};
    for (const ggml_tensor * node : product_nodes) {
        const MatrixMemory own = memory_for(*node);
        needed.workspace_bytes = std::max(needed.workspace_bytes, GGML_PAD(own.workspace_bytes, alignment));
        needed.counter_bytes = std::max(needed.counter_bytes, GGML_PAD(own.counter_bytes, alignment));
    }
    if (needed.workspace_bytes <= room_.workspace_bytes && needed.counter_bytes <= room_.counter_bytes) {
        return true;
    }
    const MatrixMemory room = {std::max(needed.workspace_bytes, room_.workspace_bytes),
                               std::max(needed.counter_bytes, room_.counter_bytes)};
    ggml_backend_buffer_ptr memory(ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device_),
                                                                  room.workspace_bytes + room.counter_bytes));
    if (!memory) {
        return false;
    }
    ggml_backend_buffer_clear(memory.get(), 0);
    auto * base = static_cast<char *>(ggml_backend_buffer_get_base(memory.get()));
    setup_.workspace = reinterpret_cast<float *>(base);
    setup_.counters = reinterpret_cast<int32_t *>(base + room.workspace_bytes);
    room_ = room;
    memory_.push_back(std::move(memory));
    return true;
}

#else

std::variant<MatrixRows, std::string> MatrixHook::rows_of(const ggml_tensor &) const {
    return std::string("this build has no kernels");
}

bool MatrixHook::has_memory_for(const std::vector<const ggml_tensor *> &) {
    return true;
}

#endif

}  // namespace orin
