// Changes to a graph that was just built and is not allocated yet. What ggml derives from a graph stays right: the
// order, the leafs, the set of known tensors, how often each is used (backends fuse by it) and what views are views of.
// PRECOND of all: a graph without gradients, in ggml's order: a tensor comes before what reads it.
#pragma once

#include <cstdint>

struct ggml_cgraph;
struct ggml_tensor;

namespace orin {

// Its place among the nodes, or -1.
int node_index(const ggml_cgraph & graph, const ggml_tensor * tensor);

bool is_leaf(const ggml_cgraph & graph, const ggml_tensor * tensor);

// How often nodes read a tensor as a source. 0 where the graph does not know it.
int32_t n_uses(const ggml_cgraph & graph, const ggml_tensor * tensor);

// Puts a node, and before it what it needs that the graph does not have yet, in front of the node at `index`; n_nodes
// puts it last. New sources without an operation become leafs. Returns where it is now. Throws std::logic_error where
// the graph has it already, or where it needs a node that only comes later: then the graph must not be used.
int insert_node(ggml_cgraph & graph, ggml_tensor * node, int index);

// Lets a node read another tensor of the graph, or none.
void set_source(ggml_cgraph & graph, ggml_tensor * node, int slot, ggml_tensor * source);

// Nodes behind `replacement` (all, where it is a leaf) that read `tensor` read the replacement; views of it become
// views of the replacement. Returns the number of sources that changed. Throws std::logic_error where types or shapes
// differ, or strides do and there are views: then the graph must not be used.
int replace_uses(ggml_cgraph & graph, ggml_tensor * tensor, ggml_tensor * replacement);

// Takes out a node, then the views that only it read. Throws std::logic_error where it is read, or is an output.
void remove_node(ggml_cgraph & graph, ggml_tensor * node);

// Takes out a leaf; as an input it gets no memory then. Throws std::logic_error where it is read.
void remove_leaf(ggml_cgraph & graph, ggml_tensor * leaf);

}  // namespace orin
