// Collects an importance matrix: computes windows of text, and sums up what goes into each product with weights.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "../engine/context.h"
#include "../engine/model.h"
#include "imatrix_sums.h"

namespace orin {

struct ImatrixParams {
    int32_t n_ctx = 512;  // tokens of a window at most
    int32_t threads = 1;
    bool process_output = false;  // output.weight, too
};

// Which nodes are looked at follows llama.cpp's tool, so that files are the same: products with layers' weights of at
// least 16 rows of inputs, and all of experts. Graphs are llama.cpp's own: without hooks.
class ImatrixCollector {
   public:
    // Asked at every product; false stops with Interrupted.
    using GoesOn = std::function<bool()>;

    // Throws EngineError where the model is none to collect from, or memory is missing.
    ImatrixCollector(std::shared_ptr<Model> model, const ImatrixParams & params);

    // Computes a window from an empty cache and adds its sums, or throws EngineError and adds nothing.
    void add_window(const std::vector<int32_t> & tokens, const GoesOn & goes_on);

    ImatrixSums & sums() { return sums_; }

   private:
    static bool on_node(ggml_tensor * node, bool is_question, void * collector);
    bool wants(const ggml_tensor & node);
    bool look_at(const ggml_tensor & node);
    void add(const ggml_tensor & node);
    const char * bring(const ggml_tensor & tensor, std::vector<char> & buffer);
    void compute(const std::vector<int32_t> & tokens);

    std::shared_ptr<Model> model_;
    const ImatrixParams params_;
    ContextPtr context_;
    RowArrays rows_;
    ImatrixSums sums_;

    // Of the window under way.
    const GoesOn * goes_on_ = nullptr;
    bool is_over_ = false;  // stopped, or failed
    std::exception_ptr failure_;
    const ggml_tensor * inputs_there_ = nullptr;  // whose data is in inputs_
    std::vector<char> inputs_;
    std::vector<char> chosen_;

    // What comes behind the last norm is not computed once it is known that nothing is collected there.
    bool has_passed_norm_ = false;
    bool has_more_behind_norm_ = false;
    bool ends_at_norm_ = false;
};

}  // namespace orin
