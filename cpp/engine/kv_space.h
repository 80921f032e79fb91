// Where the keys and values of a sequence are kept, and which of llama.cpp's contexts computes its steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "llama.h"

namespace orin {

class KvPool;

struct FreeContext {
    void operator()(llama_context * context) const { llama_free(context); }
};
using ContextPtr = std::unique_ptr<llama_context, FreeContext>;

// Makes a context for steps of up to n_tokens; throws EngineError.
using MakeContext = std::function<ContextPtr(int32_t n_tokens)>;

// One sequence: a step is place(), the computation, then commit() or undo().
class KvSpace {
   public:
    virtual ~KvSpace() = default;

    // The tokens whose keys and values are there, in order.
    const std::vector<int32_t> & tokens() const { return tokens_; }
    virtual llama_context * context_for(int32_t n_tokens) = 0;

    // Makes the sequence a beginning of `prompt`, as long as what is kept allows, but without its last token.
    virtual void reuse(const std::vector<int32_t> & prompt) = 0;
    // Empties the sequence, and all that could be found again.
    virtual void forget() = 0;

    // Throws EngineError where there is no room.
    virtual void place(const int32_t * tokens, int32_t n_tokens) = 0;
    // The tokens that were placed are computed.
    virtual void commit(const int32_t * tokens, int32_t n_tokens) = 0;
    virtual void undo() = 0;

    // Null where nothing is paged.
    virtual const KvPool * pool() const { return nullptr; }

   protected:
    // How many tokens `prompt` and the sequence begin with alike, the prompt's last one left out.
    int32_t common_prefix(const std::vector<int32_t> & prompt) const {
        const auto mismatch = std::mismatch(prompt.begin(), prompt.end() - 1, tokens_.begin(), tokens_.end());
        return static_cast<int32_t>(mismatch.first - prompt.begin());
    }

    std::vector<int32_t> tokens_;
};

}  // namespace orin
