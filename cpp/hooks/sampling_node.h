// Drawing tokens in a model graph on a GPU, and computing a token that the step before has drawn, which the host has
// not seen: docs/sampling.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../sampling/lane.h"

struct ggml_tensor;
class llm_graph_result;

namespace orin {

// In device memory, the same for all graphs of an engine.
struct SamplingTables {
    ggml_tensor * last_drawn = nullptr;  // I32 [n_sequences]: a token or a sampling::Failure
    ggml_tensor * recent = nullptr;      // I32 [max_recent, n_sequences]
    ggml_tensor * bias = nullptr;        // I32 [2 * max_bias, n_sequences]: sampling::Bias
    ggml_tensor * workspace = nullptr;   // I8 [sampling_workspace_bytes(max_outputs, n_vocab)]
    ggml_tensor * drawn = nullptr;       // I32 [max_outputs] of the step computed last
    ggml_tensor * logprobs = nullptr;    // I32 [2 * (max_top_logprobs + 1), max_outputs]: sampling::TokenLogprob
};

// What the graph that is computed next is told.
struct SamplingStep {
    std::vector<sampling::Lane> lanes;  // [n_outputs] as the rows of logits
    std::vector<int32_t> fed_from;  // [n_tokens] the sequence whose last drawn token it is; -1: the one that is given
};

// Must outlive the graphs: their nodes hold its address.
struct SamplingSetup {
    SamplingTables tables;
    SamplingStep step;
};

// Every reader of the graph's tokens gets those that were drawn on the device where the step says so, and behind the
// logits a token is drawn for each row; the logits stay on the device. A graph without outputs has the same nodes, of
// which one is empty: with another number of nodes it would have its memory reserved anew. Throws std::runtime_error
// for logits that sampling does not read.
void use_device_sampling(llm_graph_result & result, SamplingSetup & setup);

// 0 in a build without kernels.
size_t sampling_workspace_bytes(int32_t n_outputs, int32_t n_vocab);

#ifdef ORIN_CUDA
// Makes the CUDA backend run these nodes.
void register_sampling_ops();
#endif

}  // namespace orin
