// Puts paged attention in the place of flash attention in a model graph that was just built.
#pragma once

#include <memory>
#include <vector>

#include "../attention/workspace.h"
#include "paged_launch.h"
#include "paged_layer.h"

class llm_graph_result;
struct llama_ubatch;

namespace orin {

class KvPool;

// What the attention ops of an engine share. Must outlive its graphs: their nodes hold its address.
struct PagedAttentionSetup {
    const KvPool * pool;
    int32_t max_sequences;
    int32_t max_pages;                                // of a sequence
    int32_t idle_sequence;                            // of tokens that stand for nobody; -1: there are none
    int32_t window;                                   // that all layers have; 0: some look at everything
    int64_t max_gathered;                             // positions of a step; 0: nothing is gathered
    int32_t gather_tokens;                            // least tokens of a step for which it is
    std::unique_ptr<attention::Workspace> workspace;  // on the CPU
    std::unique_ptr<DeviceAttention> device;          // on a GPU
};

// Every flash attention node becomes a custom op that reads pages through the block tables, and looks as far as its
// layer does; the masks leave the graph. Throws std::runtime_error naming a node that is not supported, or a layer that
// is read by fewer or more nodes than it has readers.
// On a GPU, the graphs of a context for prompts keep flash attention, over what is gathered from the pages.
// step: null while memory is reserved. Returns how many nodes read what is gathered.
int32_t use_paged_attention(llm_graph_result & result, PagedAttentionSetup & setup,
                            const std::vector<PagedLayer> & layers, bool is_prefill, const llama_ubatch * step);

}  // namespace orin
