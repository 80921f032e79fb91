// Finds products of weights with activations in a graph that was just built, and what can be one launch with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

struct ggml_cgraph;
struct ggml_tensor;

namespace orin {

// In what form a product reads activations: cuda::RowFormat.
enum class MatrixRows : int32_t { f32, int8, f16 };

// What kernels do of it.
struct MatrixServices {
    // The rows that a MUL_MAT reads, or why it stays as it is.
    std::function<std::variant<MatrixRows, std::string>(const ggml_tensor & product)> rows_of;
    // Whether a tensor is a weight where the kernels can read it.
    std::function<bool(const ggml_tensor & tensor)> is_weight;
    // Whether a node of ours can give its result [n_tokens, n_heads, head_dim] as such rows.
    std::function<bool(const ggml_tensor & node, MatrixRows rows)> can_write;
};

constexpr size_t max_matrix_parts = 3;  // of a launch: cuda::max_matrices

// One of them.
struct MatrixPart {
    ggml_tensor * product;  // MUL_MAT
    ggml_tensor * bias;     // F32 [n_rows of the product], or null
    ggml_tensor * result;   // what others read: the product, or its sum with the bias
    int64_t first_row;      // of the weights; not 0 for half of a matrix
    int64_t n_rows;
};

// Products that become one node.
struct MatrixSite {
    ggml_tensor * input;  // F32 [n_tokens, n_values], what they all read
    MatrixRows rows;      // in this form
    std::vector<MatrixPart> parts;
    ggml_tensor * gate = nullptr;      // GLU: activation(first part) · second part
    ggml_tensor * sum = nullptr;       // ADD of the only part's result, or the gate's
    int residual_slot = 0;             // the sum's other source
    std::optional<MatrixRows> writes;  // products alone read the result of the gate: it is given in this form
    ggml_tensor * place;               // the node comes where this is
    int index = 0;                     // of the place, in the graph that was looked at
};

// MUL(RMS_NORM(x), weight)
struct NormSite {
    ggml_tensor * norm = nullptr;    // RMS_NORM; null: there is none
    ggml_tensor * weight = nullptr;  // F32 [n_values]
    ggml_tensor * result = nullptr;
};

// Activations that a node of its own brings into the form that products read.
struct RowsSite {
    ggml_tensor * input;
    MatrixRows rows;
    NormSite norm;                // that only this node needs: its result is the input
    ggml_tensor * sum = nullptr;  // ADD that the norm reads, which becomes part of it, too; the node comes where it is
    int residual_slot = 0;        // the sum's source that is added as it is
    NormSite post_norm;           // of the other one, that only the sum needs
    int index = 0;                // of the sum, in the graph that was looked at
};

// Activations that the node before gives in the form that products read.
struct WriterSite {
    ggml_tensor * input;
    MatrixRows rows;
    ggml_tensor * node;
};

struct MatrixPlan {
    std::vector<MatrixSite> sites;  // in the order of their places
    std::vector<RowsSite> rows;
    std::vector<WriterSite> writers;
    int32_t n_served = 0;  // products
    int32_t n_stock = 0;   // products with weights that stay as they are
    std::string reason;    // why the first of these does
};

MatrixPlan match_matrices(const ggml_cgraph & graph, const MatrixServices & services);

}  // namespace orin
