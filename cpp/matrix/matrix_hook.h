// Products of weights with activations on a GPU, for one engine: which nodes of its graphs our kernels compute.
#pragma once

#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "ggml-cpp.h"
#include "matrix_kernels.h"
#include "matrix_match.h"
#include "matrix_report.h"
#include "matrix_setup.h"

class llm_graph_result;

namespace orin {

// Must outlive the graphs it changed: their nodes hold its address.
class MatrixHook {
   public:
    // Serves products with weights on this device.
    MatrixHook(ggml_backend_dev_t device, const MatrixChoices & choices);

    // Behind hooks that look for what upstream builds. Several contexts may call at once.
    void graph_built(llm_graph_result & result);

    MatrixReport report() const;

   private:
    bool is_weight(const ggml_tensor & tensor) const;
    std::variant<MatrixRows, std::string> rows_of(const ggml_tensor & product) const;
    // The same for a single token.
    std::variant<MatrixRows, std::string> rows_alone(ggml_tensor product) const {
        product.ne[1] = 1;
        return rows_of(product);
    }
    // Whether there is the memory that these work in.
    bool has_memory_for(const std::vector<const ggml_tensor *> & product_nodes);

    ggml_backend_dev_t const device_;
    MatrixSetup setup_;
    mutable std::mutex lock_;
    MatrixMemory room_{};                          // in the last of:
    std::vector<ggml_backend_buffer_ptr> memory_;  // captured graphs may still work in all of it
    MatrixReport report_;
};

}  // namespace orin
