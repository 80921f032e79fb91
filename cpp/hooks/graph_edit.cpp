#include "graph_edit.h"

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "ggml-impl.h"

namespace orin {
namespace {

[[noreturn]] void refuse(const ggml_tensor & tensor, const char * why) {
    throw std::logic_error(std::string("graph edit: ") + tensor.name + " (" + ggml_op_desc(&tensor) + ") " + why);
}

bool is_view(const ggml_tensor & tensor) {
    return tensor.op == GGML_OP_VIEW || tensor.op == GGML_OP_RESHAPE || tensor.op == GGML_OP_PERMUTE ||
           tensor.op == GGML_OP_TRANSPOSE;
}

// The source whose memory the result lies in, where it lies in a source's.
const ggml_tensor * viewed_source(const ggml_tensor & tensor) {
    switch (tensor.op) {
        case GGML_OP_CPY:
            return tensor.src[1];
        case GGML_OP_SET_ROWS:
            return tensor.src[2];
        default:
            return tensor.src[0];
    }
}

// The slot of a tensor that the graph knows.
size_t slot_of(const ggml_cgraph & graph, const ggml_tensor * tensor) {
    const ggml_hash_set & known = graph.visited_hash_set;
    const size_t slot = ggml_hash_find(&known, tensor);
    if (slot == GGML_HASHSET_FULL || !ggml_bitset_get(known.used, slot)) {
        refuse(*tensor, "is not in the graph");
    }
    return slot;
}

// Tensors that were put behind it for want of their own slot move up, or they would not be found any more.
void forget(ggml_cgraph & graph, const ggml_tensor * tensor) {
    ggml_hash_set & known = graph.visited_hash_set;
    size_t hole = slot_of(graph, tensor);
    ggml_bitset_clear(known.used, hole);
    const auto distance = [&](size_t from, size_t to) { return (to + known.size - from) % known.size; };
    for (size_t slot = (hole + 1) % known.size; ggml_bitset_get(known.used, slot); slot = (slot + 1) % known.size) {
        const size_t wanted = ggml_hash(known.keys[slot]) % known.size;
        if (distance(wanted, slot) >= distance(hole, slot)) {
            known.keys[hole] = known.keys[slot];
            graph.use_counts[hole] = graph.use_counts[slot];
            ggml_bitset_set(known.used, hole);
            ggml_bitset_clear(known.used, slot);
            hole = slot;
        }
    }
}

void take_out(ggml_tensor ** tensors, int & n, int index) {
    std::copy(tensors + index + 1, tensors + n, tensors + index);
    n--;
}

// A view of `from` becomes the same view of `to`.
void rebase(ggml_tensor & view, const ggml_tensor & from, ggml_tensor & to) {
    view.view_src = to.view_src == nullptr ? &to : to.view_src;
    view.view_offs = view.view_offs - from.view_offs + to.view_offs;
    view.data = view.view_src->data == nullptr ? nullptr : static_cast<char *>(view.view_src->data) + view.view_offs;
}

}  // namespace

int node_index(const ggml_cgraph & graph, const ggml_tensor * tensor) {
    const auto * end = graph.nodes + graph.n_nodes;
    const auto * found = std::find(graph.nodes, graph.nodes + graph.n_nodes, tensor);
    return found == end ? -1 : static_cast<int>(found - graph.nodes);
}

bool is_leaf(const ggml_cgraph & graph, const ggml_tensor * tensor) {
    const auto * end = graph.leafs + graph.n_leafs;
    return std::find(graph.leafs, graph.leafs + graph.n_leafs, tensor) != end;
}

int32_t n_uses(const ggml_cgraph & graph, const ggml_tensor * tensor) {
    const ggml_hash_set & known = graph.visited_hash_set;
    const size_t slot = ggml_hash_find(&known, tensor);
    return slot == GGML_HASHSET_FULL || !ggml_bitset_get(known.used, slot) ? 0 : graph.use_counts[slot];
}

int insert_node(ggml_cgraph & graph, ggml_tensor * node, int index) {
    const int n_old = graph.n_nodes;
    ggml_build_forward_expand(&graph, node);
    if (graph.n_nodes == n_old) {
        refuse(*node, "is in the graph already, or is no node");
    }
    for (int i = n_old; i < graph.n_nodes; i++) {
        for (const ggml_tensor * source : graph.nodes[i]->src) {
            if (source != nullptr &&
                std::find(graph.nodes + index, graph.nodes + n_old, source) != graph.nodes + n_old) {
                refuse(*node, "is inserted in front of what it needs");
            }
        }
    }
    std::rotate(graph.nodes + index, graph.nodes + n_old, graph.nodes + graph.n_nodes);
    return index + graph.n_nodes - n_old - 1;
}

void set_source(ggml_cgraph & graph, ggml_tensor * node, int slot, ggml_tensor * source) {
    if (source != nullptr) {
        graph.use_counts[slot_of(graph, source)]++;
    }
    if (node->src[slot] != nullptr) {
        graph.use_counts[slot_of(graph, node->src[slot])]--;
    }
    node->src[slot] = source;
}

int replace_uses(ggml_cgraph & graph, ggml_tensor * tensor, ggml_tensor * replacement) {
    if (tensor->type != replacement->type || !ggml_are_same_shape(tensor, replacement)) {
        refuse(*replacement, "does not have the type and shape of what it replaces");
    }
    int n_replaced = 0;
    std::vector<const ggml_tensor *> moved = {tensor};  // it, and the views of it that are rebased
    for (int i = node_index(graph, replacement) + 1; i < graph.n_nodes; i++) {
        ggml_tensor & node = *graph.nodes[i];
        if (node.view_src != nullptr && std::find(moved.begin(), moved.end(), viewed_source(node)) != moved.end()) {
            if (!ggml_are_same_stride(tensor, replacement)) {
                refuse(*replacement, "does not have the strides of what it replaces, of which there are views");
            }
            rebase(node, *tensor, *replacement);
            moved.push_back(&node);
        }
        for (int slot = 0; slot < GGML_MAX_SRC; slot++) {
            if (node.src[slot] == tensor) {
                set_source(graph, &node, slot, replacement);
                n_replaced++;
            }
        }
    }
    return n_replaced;
}

void remove_node(ggml_cgraph & graph, ggml_tensor * node) {
    const int index = node_index(graph, node);
    if (index < 0) {
        refuse(*node, "is not a node of the graph");
    }
    if (n_uses(graph, node) != 0 || (node->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) {
        refuse(*node, "is still read");
    }
    take_out(graph.nodes, graph.n_nodes, index);
    forget(graph, node);
    for (ggml_tensor * source : node->src) {
        if (source != nullptr) {
            graph.use_counts[slot_of(graph, source)]--;
        }
    }
    for (ggml_tensor * source : node->src) {
        if (source != nullptr && is_view(*source) && n_uses(graph, source) == 0 &&
            (source->flags & GGML_TENSOR_FLAG_OUTPUT) == 0 && node_index(graph, source) >= 0) {
            remove_node(graph, source);
        }
    }
}

void remove_leaf(ggml_cgraph & graph, ggml_tensor * leaf) {
    auto * const found = std::find(graph.leafs, graph.leafs + graph.n_leafs, leaf);
    if (found == graph.leafs + graph.n_leafs) {
        refuse(*leaf, "is not a leaf of the graph");
    }
    if (n_uses(graph, leaf) != 0) {
        refuse(*leaf, "is still read");
    }
    take_out(graph.leafs, graph.n_leafs, static_cast<int>(found - graph.leafs));
    forget(graph, leaf);
}

}  // namespace orin
