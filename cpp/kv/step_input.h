// What paged attention is told of a step: which sequence and position each token has, and where these sequences lie.
#pragma once

#include <cstdint>
#include <vector>

#include "llama-graph.h"

namespace orin {

struct PagedAttentionSetup;

// How many positions a step's sequences have that its tokens may look at, one sequence after another as they are
// gathered: a multiple of 256, for which flash attention is fastest. 0: so many, or of so few tokens, are not.
int64_t gathered_positions(const PagedAttentionSetup & setup, const llama_ubatch & step);

class StepInput : public llm_graph_input_i {
   public:
    // n_gathered: see above.
    StepInput(ggml_context * context, const PagedAttentionSetup & setup, int64_t n_tokens, bool is_prefill,
              int64_t n_gathered);

    void set_input(const llama_ubatch * step) override;
    bool can_reuse(const llm_graph_params & params) override;

    ggml_tensor * tokens;        // [2, n_tokens]: rows of the block tables, then positions; below 0: no sequence
    ggml_tensor * block_tables;  // [sequences there can be, max_pages]
    ggml_tensor * segments;      // [sequences there can be, 4]: see cuda/kv_gather.h; null where nothing is gathered

   private:
    void set_block_tables(const llama_ubatch & step);
    void set_segments(const llama_ubatch & step);

    const PagedAttentionSetup & setup_;
    const bool is_prefill_;
    const int64_t n_gathered_;
    std::vector<int32_t> row_of_;  // of the block tables, by sequence
};

}  // namespace orin
