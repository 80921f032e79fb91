// The filters of the sampling rule: from a row's adjusted logits to the candidates of the draw, with their weights.
#pragma once

#include <cstdint>
#include <memory>

#include "adjusted_logits.h"
#include "cut.h"
#include "params.h"

namespace orin::sampling {

// Which tokens can be drawn, in ascending order of their ids.
struct Candidates {
    const int32_t * ids;       // [count]
    const uint32_t * weights;  // [count], each above 0; the likeliest token of the row has 2^30
    int32_t count;
    uint64_t total;  // of the weights
};

class Selection {
   public:
    explicit Selection(int32_t max_vocab);

    // PRECOND: logits.top_key() is not that of -inf. The result lives until the next call.
    Candidates select(const AdjustedLogits & logits, const Params & params);

    // The n largest logits, largest first, among equal ones the lower id first: their ids are [n] in the result.
    // PRECOND: 1 <= n <= the row's vocabulary.
    const int32_t * largest(const AdjustedLogits & logits, int32_t n);

   private:
    void gather(const AdjustedLogits & logits, float lowest);
    float top_k_bound(const AdjustedLogits & logits, int32_t k);
    void keep_top_k(int32_t k);
    void keep_top_p(float p, uint64_t total);
    void keep_at_least(uint32_t weight);
    uint64_t weigh(float top, float temperature);
    void find_keys();
    template <typename AreKept>
    void keep(AreKept are_kept);
    void keep_to(const Cut & cut);

    // [max_vocab and some], the first count_ of them in use, ascending by id
    std::unique_ptr<int32_t[]> ids_;
    std::unique_ptr<float[]> logits_;
    std::unique_ptr<uint32_t[]> keys_;
    std::unique_ptr<uint32_t[]> weights_;
    std::unique_ptr<uint64_t[]> ranked_;
    int32_t count_ = 0;
    CutFinder cut_finder_;
};

}  // namespace orin::sampling
