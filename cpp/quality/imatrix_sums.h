// An importance matrix under way: for each tensor of weights, the sums of its squared inputs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ggml.h"

namespace orin {

// Rows are matrices that are counted one by one: experts. All others of a tensor share one count.
struct TensorSums {
    std::vector<float> sums;      // [n_matrices, n_inputs]
    std::vector<int64_t> counts;  // tokens
};

// Floats are summed token after token, as llama.cpp's tool does, so that the sums are those of that tool; they do not
// depend on the number of threads.
class ImatrixSums {
   public:
    explicit ImatrixSums(int32_t n_threads) : n_threads_(n_threads) {}

    // Puts what is known of a tensor in place of what was. Throws std::invalid_argument where rows are no whole ones.
    void put(const std::string & name, TensorSums sums);
    const std::map<std::string, TensorSums> & all() const { return sums_; }

    // A product of `weights` [n_inputs, n_out, …] with `inputs` [n_inputs, n_tokens, …], whose data is at `data`, laid
    // out as the tensor says. Throws EngineError where a sum is not finite, or does not fit what is there.
    void add_matrices(const std::string & name, const ggml_tensor & weights, const ggml_tensor & inputs,
                      const char * data);
    // A product of some of the experts `weights` [n_inputs, n_out, n_experts] with `inputs`
    // [n_inputs, n_used or 1, n_tokens]; `chosen` [n_used, n_tokens] says which, laid out as `ids` says.
    void add_experts(const std::string & name, const ggml_tensor & weights, const ggml_tensor & inputs,
                     const char * data, const ggml_tensor & ids, const char * chosen);

   private:
    TensorSums & find(const std::string & name, int64_t n_values, int64_t n_counts);

    int32_t n_threads_;
    std::map<std::string, TensorSums> sums_;
};

}  // namespace orin
