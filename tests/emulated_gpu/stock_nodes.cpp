#include "stock_nodes.h"

#include <algorithm>
#include <stdexcept>

#include "../../cpp/hooks/include/orin_hooks.h"
#include "../simt/counters.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"

namespace emulated_gpu {

// The table that may be stamped on a RoPE node is for the CPU: a GPU does not look at it.
ggml_tensor * StockNodes::copy_of(const ggml_tensor * tensor) {
    ggml_tensor *& known = by_original_[tensor];
    if (known == nullptr) {
        copies_.push_back(*tensor);
        known = &copies_.back();
        if (tensor->op == GGML_OP_ROPE) {
            known->op_params[ORIN_ROPE_SLOT_LOW] = 0;
            known->op_params[ORIN_ROPE_SLOT_HIGH] = 0;
        }
    }
    return known;
}

void StockNodes::add(const ggml_tensor & node) {
    ggml_tensor * copy = copy_of(&node);
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (node.src[i] != nullptr) {
            copy->src[i] = copy_of(node.src[i]);
        }
    }
    nodes_.push_back(copy);
}

void StockNodes::finish() {
    const size_t bytes = ggml_graph_overhead_custom(nodes_.size(), false);
    context_.reset(ggml_init({bytes, /*mem_buffer=*/nullptr, /*no_alloc=*/true}));
    graph_ = ggml_new_graph_custom(context_.get(), nodes_.size(), false);
    std::copy(nodes_.begin(), nodes_.end(), graph_->nodes);
    graph_->n_nodes = static_cast<int>(nodes_.size());
}

// One thread: several would wait for each other at every node, which takes long on a busy machine.
void StockNodes::run() {
    simt::count("stock_nodes", static_cast<int64_t>(nodes_.size()));
    static std::vector<uint8_t> work;
    ggml_cplan plan = ggml_graph_plan(graph_, 1, nullptr);
    work.resize(std::max(work.size(), plan.work_size));
    plan.work_data = work.data();
    if (ggml_graph_compute(graph_, &plan) != GGML_STATUS_SUCCESS) {
        throw std::runtime_error("the CPU did not compute what the emulated GPU asked of it");
    }
}

}  // namespace emulated_gpu
