// Who reads what in a graph, as long as it does not change.
#pragma once

#include <unordered_map>
#include <vector>

#include "ggml-impl.h"

namespace orin {

class GraphReaders {
   public:
    explicit GraphReaders(const ggml_cgraph & graph) {
        for (int i = 0; i < graph.n_nodes; i++) {
            indices_[graph.nodes[i]] = i;
            for (const ggml_tensor * source : graph.nodes[i]->src) {
                if (source != nullptr) {
                    readers_[source].push_back(graph.nodes[i]);
                }
            }
        }
    }

    // PRECOND: it is a node of the graph.
    int index(const ggml_tensor * node) const { return indices_.at(node); }

    // In the graph's order; a node that reads a tensor twice is there twice.
    const std::vector<ggml_tensor *> & of(const ggml_tensor * tensor) const {
        const auto found = readers_.find(tensor);
        return found == readers_.end() ? none_ : found->second;
    }

    // Null where there are others, or where the tensor is a result of the graph.
    ggml_tensor * only_one_of(const ggml_tensor * tensor) const {
        const std::vector<ggml_tensor *> & readers = of(tensor);
        return readers.size() == 1 && (tensor->flags & GGML_TENSOR_FLAG_OUTPUT) == 0 ? readers.front() : nullptr;
    }

   private:
    std::unordered_map<const ggml_tensor *, std::vector<ggml_tensor *>> readers_;
    std::unordered_map<const ggml_tensor *, int> indices_;
    std::vector<ggml_tensor *> none_;
};

}  // namespace orin
