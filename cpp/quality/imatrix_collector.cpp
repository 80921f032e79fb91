#include "imatrix_collector.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "../engine/gpu.h"
#include "../engine/runtime.h"

namespace orin {
namespace {

constexpr int32_t tokens_per_step = 512;
constexpr int64_t min_rows = 16;  // of a product that is looked at: llama.cpp's rule
constexpr const char * last_norm = "result_norm";

// The scheduler names a copy for another device "CUDA0#NAME#0".
std::string plain_name(const ggml_tensor & weights) {
    const std::string name = weights.name;
    const size_t first = name.find('#');
    if (first == std::string::npos) {
        return name;
    }
    const size_t second = name.find('#', first + 1);
    return name.substr(first + 1, second == std::string::npos ? second : second - first - 1);
}

}  // namespace

ImatrixCollector::ImatrixCollector(std::shared_ptr<Model> model, const ImatrixParams & params)
    : model_(std::move(model)), params_(params), sums_(params.threads) {
    if (!model_->is_causal_decoder()) {
        throw EngineError("the model does not read text from left to right: an importance matrix needs one that does");
    }
    AbortGuard guard;
    llama_context_params upstream = llama_context_default_params();
    upstream.n_ctx = static_cast<uint32_t>(padded_context(params.n_ctx));
    upstream.n_batch = static_cast<uint32_t>(std::min(params.n_ctx, tokens_per_step));
    upstream.n_ubatch = upstream.n_batch;
    upstream.n_seq_max = 1;
    upstream.n_outputs_max = upstream.n_batch;
    upstream.n_threads = params.threads;
    upstream.n_threads_batch = params.threads;
    upstream.no_perf = true;
    upstream.cb_eval = &on_node;
    upstream.cb_eval_user_data = this;
    upstream.abort_callback = [](void * data) { return static_cast<ImatrixCollector *>(data)->is_over_; };
    upstream.abort_callback_data = this;
    const std::string what =
        "llama.cpp could not make a context for windows of " + std::to_string(params.n_ctx) + " tokens";
    on_gpu(
        model_->gpu(), [&] { return what; },
        [&] { context_.reset(llama_init_from_model(model_->handle(), upstream)); });
    if (!context_) {
        throw EngineError(what + ": " + guard.first_error() + ". Try smaller ones (-c/--ctx-size).");
    }
}

void ImatrixCollector::add_window(const std::vector<int32_t> & tokens, const GoesOn & goes_on) {
    AbortGuard guard;
    const ImatrixSums before = sums_;
    goes_on_ = &goes_on;
    is_over_ = false;
    failure_ = nullptr;
    try {
        const auto what = [] { return "a window could not be computed on the GPU"; };
        on_gpu(model_->gpu(), what, [&] { compute(tokens); });
    } catch (...) {
        sums_ = before;
        throw;
    }
    ends_at_norm_ = has_passed_norm_ && !has_more_behind_norm_;
}

void ImatrixCollector::compute(const std::vector<int32_t> & tokens) {
    const auto n = static_cast<int32_t>(tokens.size());
    llama_memory_clear(llama_get_memory(context_.get()), true);
    for (int32_t begin = 0; begin < n; begin += tokens_per_step) {
        rows_.clear();
        for (int32_t position = begin; position < std::min(n, begin + tokens_per_step); position++) {
            // Logits of all, or the last layer would be computed for few rows only.
            rows_.add(tokens[static_cast<size_t>(position)], position, 0, true);
        }
        has_passed_norm_ = false;
        inputs_there_ = nullptr;
        try {
            compute_rows(context_.get(), rows_);
            llama_synchronize(context_.get());
        } catch (const Interrupted &) {
            // It was this that broke the step off; what made it is told below.
        }
        if (failure_) {
            std::rethrow_exception(failure_);
        }
        if (is_over_) {
            throw Interrupted("stopped within a window of text");
        }
    }
}

// Called by llama.cpp: no exception may leave it.
bool ImatrixCollector::on_node(ggml_tensor * node, bool is_question, void * collector) {
    auto & self = *static_cast<ImatrixCollector *>(collector);
    if (is_question) {
        return !self.is_over_ && self.wants(*node);
    }
    try {
        return self.look_at(*node);
    } catch (...) {
        self.failure_ = std::current_exception();
        self.is_over_ = true;
        return false;
    }
}

bool ImatrixCollector::wants(const ggml_tensor & node) {
    if (std::strcmp(node.name, last_norm) == 0) {
        has_passed_norm_ = true;
        return ends_at_norm_;
    }
    if (node.op != GGML_OP_MUL_MAT && node.op != GGML_OP_MUL_MAT_ID) {
        return false;
    }
    const ggml_tensor & inputs = *node.src[1];
    bool is_wanted = inputs.type == GGML_TYPE_F32;
    if (node.op == GGML_OP_MUL_MAT) {
        const std::string name = plain_name(*node.src[0]);
        is_wanted = is_wanted && inputs.ne[1] >= min_rows &&
                    (name.rfind("blk.", 0) == 0 || (params_.process_output && name == "output.weight"));
    }
    has_more_behind_norm_ = has_more_behind_norm_ || (is_wanted && has_passed_norm_);
    return is_wanted;
}

// Returns whether the rest of the graph is to be computed.
bool ImatrixCollector::look_at(const ggml_tensor & node) {
    if (!(*goes_on_)()) {
        is_over_ = true;
        return false;
    }
    if (node.op != GGML_OP_MUL_MAT && node.op != GGML_OP_MUL_MAT_ID) {
        return false;  // the last norm
    }
    add(node);
    return true;
}

void ImatrixCollector::add(const ggml_tensor & node) {
    const ggml_tensor & weights = *node.src[0];
    const ggml_tensor & inputs = *node.src[1];
    const std::string name = plain_name(weights);
    if (inputs.nb[0] != sizeof(float) || (node.op == GGML_OP_MUL_MAT_ID && inputs.ne[3] != 1)) {
        throw EngineError(name + ": its inputs lie in memory as no importance matrix can be made of");
    }
    const char * data = ggml_backend_buffer_is_host(inputs.buffer) ? static_cast<const char *>(inputs.data) : nullptr;
    if (data == nullptr) {
        if (inputs_there_ != &inputs) {  // else: the matrices of Q, K and V read the same
            bring(inputs, inputs_);
            inputs_there_ = &inputs;
        }
        data = inputs_.data();
    }
    if (node.op == GGML_OP_MUL_MAT) {
        sums_.add_matrices(name, weights, inputs, data);
    } else {
        sums_.add_experts(name, weights, inputs, data, *node.src[2], bring(*node.src[2], chosen_));
    }
}

const char * ImatrixCollector::bring(const ggml_tensor & tensor, std::vector<char> & buffer) {
    buffer.resize(ggml_nbytes(&tensor));
    ggml_backend_tensor_get(&tensor, buffer.data(), 0, buffer.size());
    return buffer.data();
}

}  // namespace orin
