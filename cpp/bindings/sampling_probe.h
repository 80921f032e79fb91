// Sampling on a GPU alone: the nodes of cpp/hooks/sampling_node.h in a graph that stands for a model, and the steps of
// cpp/engine/device_sampling.h over it. Only in builds with kernels.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "../engine/device_sampling.h"
#include "../engine/stream_order.h"
#include "ggml-cpp.h"

class llm_graph_result;

namespace orin {

struct ProbeRow {
    int32_t token;  // or unknown_token
    SequenceId sequence;
    RequestId request;
    Sampler * sampler;  // null: no output
    int32_t n_logprobs;
    uint64_t position;
};

// The model's logits after a token are a row of a matrix, whatever came before.
class SamplingProbe {
   public:
    // logits: [n_vocab, n_vocab]. Throws std::runtime_error where there is no GPU, EngineError.
    SamplingProbe(const std::vector<float> & logits, const DeviceSamplingSizes & sizes);
    ~SamplingProbe();

    // One of two backends, which are streams of their own, computes the step, or it fails. Graphs are built once for
    // each size.
    void start(const std::vector<ProbeRow> & rows, int32_t n_idle, int32_t backend, bool fails);
    std::vector<DrawnOutput> collect();
    void check(const Sampler & sampler, int64_t n_logprobs) const { sampling_->check(sampler, n_logprobs); }

   private:
    struct Graph {
        std::unique_ptr<llm_graph_result> result;
        ggml_tensor * tokens;   // [n_tokens]
        ggml_tensor * out_ids;  // [n_outputs]
        ggml_backend_sched_ptr scheduler;
    };

    Graph build(int64_t n_tokens, int64_t n_outputs, ggml_backend_t backend);

    ggml_backend_ptr gpu_[2];
    ggml_backend_ptr cpu_;
    ggml_context_ptr weights_;
    ggml_backend_buffer_ptr memory_;
    ggml_tensor * logits_;
    std::unique_ptr<StreamOrder> order_;
    std::unique_ptr<DeviceSampling> sampling_;
    std::map<std::tuple<int64_t, int64_t, int32_t>, Graph> graphs_;  // by n_tokens, n_outputs, backend
};

// Adds the classes to _native.testing.
void bind_sampling_probe(pybind11::module_ & m);

}  // namespace orin
