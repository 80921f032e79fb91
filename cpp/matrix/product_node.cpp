#include "product_node.h"

#include <algorithm>
#include <cstring>

#include "activation_node.h"
#include "ggml-impl.h"

#ifdef ORIN_CUDA
#include "../hooks/custom_op.h"
#include "weight_type.h"
#endif

namespace orin {
namespace {

// Places of the sources.
enum Source {
    source_input,
    source_weights,
    source_biases = source_weights + max_matrix_parts,
    source_residual = source_biases + max_matrix_parts,
    n_sources,
};

constexpr int8_t none = -1;

// What ggml wants of a custom op, then our own: they fit into the node's 64 bytes.
struct NodeParams {
    ggml_custom_op_params op;
    int32_t n_values;
    int32_t first_rows[2];  // of a gate's parts, which can be halves of a matrix
    int32_t n_rows[max_matrix_parts];
    int8_t n_parts;
    int8_t rows;    // MatrixRows of the input
    int8_t writes;  // MatrixRows of the result, or none
    int8_t gate;    // ggml_glu_op, or none
};
static_assert(sizeof(NodeParams) <= GGML_MAX_OP_PARAMS);

void compute_on_cpu(ggml_tensor * node, int, int, void *) {
    GGML_ABORT("%s: products of this form are made for GPUs alone, and ran on the CPU", node->name);
}

NodeParams params_of(const ggml_tensor & node) {
    NodeParams params;
    std::memcpy(&params, node.op_params, sizeof params);
    return params;
}

}  // namespace

ggml_tensor * product_node(ggml_context * context, const MatrixSite & site, ggml_tensor * input, ggml_tensor * residual,
                           MatrixSetup & setup) {
    NodeParams own{};
    own.n_values = static_cast<int32_t>(site.input->ne[0]);
    own.n_parts = static_cast<int8_t>(site.parts.size());
    own.rows = static_cast<int8_t>(site.rows);
    own.writes = site.writes ? static_cast<int8_t>(*site.writes) : none;
    own.gate = site.gate == nullptr ? none : static_cast<int8_t>(ggml_get_glu_op(site.gate));
    ggml_tensor * sources[n_sources] = {};
    sources[source_input] = input;
    sources[source_residual] = residual;
    int64_t n_rows = 0;
    for (size_t i = 0; i < site.parts.size(); i++) {
        const MatrixPart & part = site.parts[i];
        sources[source_weights + i] = part.product->src[0];
        sources[source_biases + i] = part.bias;
        own.n_rows[i] = static_cast<int32_t>(part.n_rows);
        if (site.gate != nullptr) {
            own.first_rows[i] = static_cast<int32_t>(part.first_row);
        }
        n_rows += part.n_rows;
    }
    if (site.gate != nullptr) {
        n_rows /= 2;
    }
    const int64_t n_floats = site.writes ? row_floats(*site.writes, n_rows) : n_rows;
    ggml_tensor * node = ggml_custom_4d(context, GGML_TYPE_F32, n_floats, site.input->ne[1], 1, 1, sources, n_sources,
                                        compute_on_cpu, 1, &setup);
    std::memcpy(&own.op, node->op_params, sizeof own.op);
    ggml_set_op_params(node, &own, sizeof own);
    ggml_format_name(node, "product %s", site.parts.front().product->src[0]->name);
    return node;
}

const ggml_tensor * first_weights(const ggml_tensor & node) {
    const bool is_ours = node.op == GGML_OP_CUSTOM && params_of(node).op.fun == compute_on_cpu;
    return is_ours ? node.src[source_weights] : nullptr;
}

#ifdef ORIN_CUDA
namespace {

cuda::Gate cuda_gate(int8_t gate) {
    switch (gate) {
        case GGML_GLU_OP_REGLU:
            return cuda::Gate::relu;
        case GGML_GLU_OP_GEGLU:
            return cuda::Gate::gelu;
        case GGML_GLU_OP_SWIGLU:
            return cuda::Gate::silu;
        case GGML_GLU_OP_GEGLU_ERF:
            return cuda::Gate::gelu_erf;
        case GGML_GLU_OP_GEGLU_QUICK:
            return cuda::Gate::gelu_quick;
        default:
            return cuda::Gate::none;
    }
}

// All but how it is cut. PRECOND: kernels know the types of the weights. What is not allocated yet has no data.
cuda::MatrixParams uncut(const ggml_tensor & node) {
    const NodeParams own = params_of(node);
    const ggml_tensor * residual = node.src[source_residual];
    cuda::MatrixParams p{};
    p.n_tokens = static_cast<int32_t>(std::max(int64_t{1}, node.ne[1]));  // without tokens it is not launched
    p.input = {static_cast<cuda::RowFormat>(own.rows), own.n_values, node.src[source_input]->data};
    p.n_matrices = own.n_parts;
    auto * out = static_cast<float *>(node.data);
    for (int i = 0; i < own.n_parts; i++) {
        const ggml_tensor & weights = *node.src[source_weights + i];
        const ggml_tensor * bias = node.src[source_biases + i];
        const int64_t first_row = own.gate == none ? 0 : own.first_rows[i];
        cuda::WeightMatrix & matrix = p.matrices[i];
        matrix.type = *cuda_weight_type(weights.type);
        matrix.row_bytes = static_cast<int64_t>(weights.nb[1]);
        matrix.rows = static_cast<const char *>(weights.data) + first_row * matrix.row_bytes;
        matrix.n_rows = own.n_rows[i];
        matrix.bias = bias == nullptr ? nullptr : static_cast<const float *>(bias->data) + first_row;
        matrix.out = out;
        if (out != nullptr && own.gate == none) {
            out += int64_t{matrix.n_rows} * p.n_tokens;
        }
    }
    p.gate = cuda_gate(own.gate);
    p.residual = residual == nullptr ? nullptr : static_cast<const float *>(residual->data);
    if (own.writes != none) {
        p.out_rows = {static_cast<cuda::RowFormat>(own.writes), own.n_rows[0], node.data};
    }
    return p;
}

bool supports(const ggml_tensor * node) {
    const NodeParams own = params_of(*node);
    for (int i = 0; i < own.n_parts; i++) {
        if (!cuda_weight_type(node->src[source_weights + i]->type)) {
            return false;
        }
    }
    return can_compute(uncut(*node));
}

cuda::MatrixParams kernel_params(const ggml_tensor & node) {
    cuda::MatrixParams params = uncut(node);
    cut(params, *static_cast<const MatrixSetup *>(params_of(node).op.userdata));
    return params;
}

int launch(ggml_tensor * node, void *, void * stream) {
    return compute(kernel_params(*node), static_cast<cudaStream_t>(stream));
}

}  // namespace

MatrixMemory memory_for(const ggml_tensor & node) {
    return memory_for(kernel_params(node));
}

void register_product_op() {
    register_custom_op({compute_on_cpu, supports, launch});
}
#endif

}  // namespace orin
