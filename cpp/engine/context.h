// llama.cpp's contexts: making one, and computing rows in it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine_params.h"
#include "llama.h"
#include "model.h"
#include "stepper.h"

namespace orin {

class EngineHooks;

// Leaves a GPU's context as it is where to free one might never end: once a step in this process was broken off there.
struct FreeContext {
    void operator()(llama_context * context) const;
};
using ContextPtr = std::unique_ptr<llama_context, FreeContext>;

struct ContextSize {
    int32_t n_tokens;     // of a step
    int32_t n_sequences;  // of a step
    int32_t n_outputs;    // of a step, at most; n_sequences at least
};

// The length that llama.cpp gives a context of n_ctx tokens. It cuts steps to the length it is asked for, not to this.
int32_t padded_context(int32_t n_ctx);

// Throws EngineError with llama.cpp's reason. `hooks` outlives the context.
ContextPtr make_context(Model & model, const EngineParams & params, ContextSize size, FlashAttention flash,
                        EngineHooks & hooks, const StopCheck & stop);

// What computes its graphs, as far as it can: a GPU's, where there is one.
ggml_backend_t backend_of(const llama_context & context);

// Rows as llama.cpp takes them. Keeps its buffers.
class RowArrays {
   public:
    void clear();
    void add(int32_t token, int32_t position, llama_seq_id sequence, bool wants_logits);
    int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
    // Valid until the next change.
    llama_batch batch();

   private:
    std::vector<llama_token> tokens_;
    std::vector<llama_pos> positions_;
    std::vector<llama_seq_id> sequences_;
    std::vector<llama_seq_id *> sequence_pointers_;
    std::vector<int32_t> n_sequences_;
    std::vector<int8_t> wants_logits_;
};

// Returns whether a graph had to be built; what a GPU computes is queued. Throws EngineError, Interrupted.
bool compute_rows(llama_context * context, RowArrays & rows);

}  // namespace orin
