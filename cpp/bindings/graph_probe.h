// A small graph that tests build, edit and run; and all that ggml knows of it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpp.h"

namespace orin {

// Tensors are numbered in the order in which they are made; all are F32.
class GraphProbe {
   public:
    // A graph of at most so many nodes and leafs.
    GraphProbe(int max_nodes, int max_tensors);

    // Where the next tensor lies, and with it its slot among the known ones: so many tensors further on.
    void skip(int n_tensors);

    int leaf(int64_t n);
    int affine(int x, float scale, float bias);  // scale · x + bias
    int add(int a, int b);
    int scale_in_place(int x, float scale);
    int view(int x, int64_t first, int64_t n);  // n values from this one on
    int reshape(int x, int64_t n_rows);

    void expand(int tensor);
    int insert(int tensor, int index);
    int replace_uses(int tensor, int replacement);
    void set_source(int tensor, int slot, int source);
    void remove(int tensor);
    void remove_leaf(int tensor);

    // nodes and leafs in the graph's order, the known tensors with their uses, and of each tensor its sources, the
    // tensor that it is a view of (or -1) and the offset there in values.
    pybind11::dict state() const;

    // Gives the graph its memory and runs it. Results of these tensors, views through their own offset.
    std::map<int, std::vector<float>> compute(const std::map<int, std::vector<float>> & leafs,
                                              const std::vector<int> & outputs);

   private:
    int add_tensor(ggml_tensor * tensor);
    int number(const ggml_tensor * tensor) const;
    ggml_tensor * tensor(int number) const { return tensors_.at(static_cast<size_t>(number)); }

    ggml_context_ptr context_;
    ggml_cgraph * graph_;
    std::vector<ggml_tensor *> tensors_;
};

// Adds the class to _native.testing.
void bind_graph_probe(pybind11::module_ & m);

}  // namespace orin
