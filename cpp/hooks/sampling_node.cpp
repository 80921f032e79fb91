#include "sampling_node.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "ggml-impl.h"
#include "graph_edit.h"
#include "llama-batch.h"
#include "llama-graph.h"

#ifdef ORIN_CUDA
#include "../../cuda/feed.h"
#include "custom_op.h"
#endif

namespace orin {
namespace {

constexpr int64_t lane_words = sizeof(sampling::Lane) / sizeof(int32_t);
static_assert(sizeof(sampling::Lane) % sizeof(uint64_t) == 0, "lanes lie one after another in an I32 tensor");

// Both nodes read one tensor, so that one copy brings all that is new in a step: lanes, then fed_from.
class StepInput : public llm_graph_input_i {
   public:
    StepInput(ggml_context * context, const SamplingStep & step, int64_t n_tokens, int64_t n_outputs)
        : tensor(ggml_new_tensor_1d(context, GGML_TYPE_I32, n_outputs * lane_words + n_tokens)),
          step_(step),
          n_tokens_(n_tokens),
          n_outputs_(n_outputs) {
        ggml_set_input(tensor);
        ggml_set_name(tensor, "sampling_step");
    }

    void set_input(const llama_ubatch *) override {
        if (static_cast<int64_t>(step_.lanes.size()) != n_outputs_ ||
            static_cast<int64_t>(step_.fed_from.size()) != n_tokens_) {
            throw std::logic_error("a step is computed that sampling was not prepared for");
        }
        auto * words = static_cast<int32_t *>(tensor->data);
        std::memcpy(words, step_.lanes.data(), step_.lanes.size() * sizeof(sampling::Lane));
        std::copy(step_.fed_from.begin(), step_.fed_from.end(), words + n_outputs_ * lane_words);
    }

    bool can_reuse(const llm_graph_params & params) override {
        return params.ubatch.n_tokens == n_tokens_ && params.n_outputs == n_outputs_;
    }

    ggml_tensor * const tensor;

   private:
    const SamplingStep & step_;
    const int64_t n_tokens_;
    const int64_t n_outputs_;
};

void feed_cpu(ggml_tensor *, int, int, void *) {
    GGML_ABORT("tokens are fed back on a GPU only: make the engine with --hooks -sampling");
}
void sample_cpu(ggml_tensor *, int, int, void *) {
    GGML_ABORT("this node draws tokens on a GPU only: make the engine with --hooks -sampling");
}

// Places of the sources.
enum FeedSource { feed_given, feed_step, feed_last_drawn };
enum SampleSource { sample_drawn, sample_logits, sample_step };

void feed_tokens(llm_graph_result & result, SamplingSetup & setup, ggml_tensor * step) {
    ggml_cgraph & graph = *result.get_gf();
    ggml_tensor * tokens = result.t_inp_tokens;
    ggml_tensor * sources[] = {tokens, step, setup.tables.last_drawn};
    ggml_tensor * fed =
        ggml_custom_4d(result.get_ctx(), GGML_TYPE_I32, tokens->ne[0], 1, 1, 1, sources, 3, feed_cpu, 1, &setup);
    ggml_set_name(fed, "fed_tokens");
    const auto reads_tokens = [=](const ggml_tensor * node) {
        return std::find(node->src, node->src + GGML_MAX_SRC, tokens) != node->src + GGML_MAX_SRC;
    };
    const auto first = std::find_if(graph.nodes, graph.nodes + graph.n_nodes, reads_tokens);
    insert_node(graph, fed, static_cast<int>(first - graph.nodes));
    replace_uses(graph, tokens, fed);
}

void sample_logits_of(llm_graph_result & result, SamplingSetup & setup, ggml_tensor * step) {
    ggml_tensor * logits = result.t_logits;
    ggml_tensor * sources[] = {logits, step};
    ggml_tensor * place = ggml_view_1d(result.get_ctx(), setup.tables.drawn, logits->ne[1], 0);
    ggml_tensor * drawn = ggml_custom_inplace(result.get_ctx(), place, sources, 2, sample_cpu, 1, &setup);
    ggml_set_name(drawn, "drawn_tokens");
    insert_node(*result.get_gf(), drawn, ggml_graph_n_nodes(result.get_gf()));
    result.t_logits = nullptr;  // or upstream copies them to the host
}

}  // namespace

void use_device_sampling(llm_graph_result & result, SamplingSetup & setup) {
    const ggml_tensor * logits = result.t_logits;
    const ggml_tensor * tokens = result.t_inp_tokens;
    if (logits == nullptr || tokens == nullptr || logits->type != GGML_TYPE_F32 || logits->nb[0] != sizeof(float) ||
        ggml_n_dims(logits) > 2) {
        throw std::runtime_error("sampling on the GPU does not read the logits of this model: use --hooks -sampling");
    }
    const SamplingTables & tables = setup.tables;
    if (logits->ne[1] > tables.drawn->ne[0] ||
        sampling_workspace_bytes(static_cast<int32_t>(logits->ne[1]), static_cast<int32_t>(logits->ne[0])) >
            ggml_nbytes(tables.workspace)) {
        throw std::runtime_error("sampling has no room for a graph with " + std::to_string(logits->ne[1]) +
                                 " outputs of " + std::to_string(logits->ne[0]) + " logits");
    }
    ggml_tensor * step = static_cast<StepInput *>(result.add_input(std::make_unique<StepInput>(
                                                      result.get_ctx(), setup.step, tokens->ne[0], logits->ne[1])))
                             ->tensor;
    feed_tokens(result, setup, step);
    sample_logits_of(result, setup, step);
}

#ifdef ORIN_CUDA
namespace {

template <typename Value>
Value * data_of(const ggml_tensor * tensor) {
    return static_cast<Value *>(tensor->data);
}

bool feed_supports(const ggml_tensor * op) {
    return op->type == GGML_TYPE_I32 && op->src[feed_given]->type == GGML_TYPE_I32;
}

bool sample_supports(const ggml_tensor * op) {
    return op->type == GGML_TYPE_I32 && op->src[sample_logits]->type == GGML_TYPE_F32;
}

int launch_feed(ggml_tensor * op, void *, void * stream) {
    const ggml_tensor & step = *op->src[feed_step];
    cuda::FeedParams p{};
    p.n_tokens = static_cast<int32_t>(op->ne[0]);
    p.given = data_of<const int32_t>(op->src[feed_given]);
    p.sequences = data_of<const int32_t>(&step) + (step.ne[0] - op->ne[0]);
    p.last_drawn = data_of<const int32_t>(op->src[feed_last_drawn]);
    p.tokens = data_of<int32_t>(op);
    return cuda::feed(p, static_cast<cudaStream_t>(stream));
}

cuda::SamplingParams sampling_params(ggml_tensor & node, const SamplingTables & tables) {
    const ggml_tensor & logits = *node.src[sample_logits];
    cuda::SamplingParams p{};
    p.logits = data_of<const float>(&logits);
    p.row_stride = static_cast<int64_t>(logits.nb[1] / sizeof(float));
    p.n_rows = static_cast<int32_t>(logits.ne[1]);
    p.n_vocab = static_cast<int32_t>(logits.ne[0]);
    p.lanes = data_of<const sampling::Lane>(node.src[sample_step]);
    p.recent = data_of<const int32_t>(tables.recent);
    p.max_recent = static_cast<int32_t>(tables.recent->ne[0]);
    p.bias = data_of<const sampling::Bias>(tables.bias);
    p.max_bias = static_cast<int32_t>(tables.bias->ne[0] / 2);
    p.workspace = tables.workspace->data;
    p.tokens = data_of<int32_t>(&node);
    return p;
}

cuda::LogprobsParams logprobs_params(const cuda::SamplingParams & drawn, const SamplingTables & tables) {
    cuda::LogprobsParams p{};
    p.logits = drawn.logits;
    p.row_stride = drawn.row_stride;
    p.n_rows = drawn.n_rows;
    p.n_vocab = drawn.n_vocab;
    p.lanes = drawn.lanes;
    p.tokens = drawn.tokens;
    p.workspace = drawn.workspace;
    p.logprobs = data_of<sampling::TokenLogprob>(tables.logprobs);
    return p;
}

cuda::PublishParams publish_params(const cuda::SamplingParams & drawn, const SamplingTables & tables) {
    cuda::PublishParams p{};
    p.lanes = drawn.lanes;
    p.tokens = drawn.tokens;
    p.last_drawn = data_of<int32_t>(tables.last_drawn);
    p.recent = data_of<int32_t>(tables.recent);
    p.max_recent = drawn.max_recent;
    p.n_rows = drawn.n_rows;
    return p;
}

int launch_sample(ggml_tensor * op, void * userdata, void * cuda_stream) {
    const SamplingTables & tables = static_cast<const SamplingSetup *>(userdata)->tables;
    const auto stream = static_cast<cudaStream_t>(cuda_stream);
    const cuda::SamplingParams drawn = sampling_params(*op, tables);
    cudaError_t error = cuda::sample(drawn, stream);
    if (error == cudaSuccess) {
        error = cuda::logprobs(logprobs_params(drawn, tables), stream);
    }
    return error == cudaSuccess ? cuda::publish(publish_params(drawn, tables), stream) : error;
}

}  // namespace

void register_sampling_ops() {
    register_custom_op({feed_cpu, feed_supports, launch_feed});
    register_custom_op({sample_cpu, sample_supports, launch_sample});
}
#endif

size_t sampling_workspace_bytes(int32_t n_outputs, int32_t n_vocab) {
#ifdef ORIN_CUDA
    return cuda::sampling_workspace_bytes(n_outputs, n_vocab);
#else
    (void)n_outputs;
    (void)n_vocab;
    return 0;
#endif
}

}  // namespace orin
