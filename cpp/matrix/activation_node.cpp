#include "activation_node.h"

#include <algorithm>
#include <cstring>

#include "ggml-impl.h"

#ifdef ORIN_CUDA
#include "../../cuda/prepare_rows.h"
#include "../hooks/custom_op.h"
#endif

namespace orin {
namespace {

// Places of the sources.
enum Source {
    source_x,
    source_weight,
    source_residual,
    source_post_weight,
    source_next_weights,
    n_sources = source_next_weights + max_matrix_parts,
};

// What ggml wants of a custom op, then our own: they fit into the node's 64 bytes.
struct NodeParams {
    ggml_custom_op_params op;
    int32_t n_tokens;
    MatrixRows rows;
    float eps;
    float post_eps;
};
static_assert(sizeof(NodeParams) <= GGML_MAX_OP_PARAMS);

void compute_on_cpu(ggml_tensor * node, int, int, void *) {
    GGML_ABORT("%s: rows for products are made on GPUs alone, and this ran on the CPU", node->name);
}

float eps_of(const NormSite & site) {
    return site.norm == nullptr ? 0.0f : ggml_get_op_params_f32(site.norm, 0);
}

}  // namespace

int64_t row_floats(MatrixRows rows, int64_t n_values) {
    switch (rows) {
        case MatrixRows::f32:
            return n_values;
        case MatrixRows::int8:  // and 16 bytes for each 32 values
            return n_values / 4 + n_values / 8;
        case MatrixRows::f16:  // and 16 bytes
            return n_values / 2 + 4;
    }
    return 0;
}

ActivationNode activation_node(ggml_context * context, const RowsSite & site, const ActivationSources & given,
                               MatrixSetup & setup) {
    ggml_tensor * sources[n_sources] = {};
    sources[source_x] = given.x;
    sources[source_weight] = site.norm.weight;
    sources[source_residual] = given.residual;
    sources[source_post_weight] = site.post_norm.weight;
    const int64_t n_values = site.input->ne[0];
    const int64_t n_tokens = site.input->ne[1];
    std::copy(given.next_weights.begin(), given.next_weights.end(), sources + source_next_weights);
    const int64_t n_floats = row_floats(site.rows, n_values);
    ActivationNode made{};
    if (given.residual == nullptr) {
        made.node = made.rows = ggml_custom_4d(context, GGML_TYPE_F32, n_floats, n_tokens, 1, 1, sources, n_sources,
                                               compute_on_cpu, 1, &setup);
    } else {
        made.node = ggml_custom_4d(context, GGML_TYPE_F32, n_values + n_floats, n_tokens, 1, 1, sources, n_sources,
                                   compute_on_cpu, 1, &setup);
        const auto part = [&](int64_t n, int64_t first) {
            return ggml_view_2d(context, made.node, n, n_tokens, static_cast<size_t>(n) * sizeof(float),
                                static_cast<size_t>(first) * sizeof(float));
        };
        made.sum = part(n_values, 0);
        made.rows = part(n_floats, n_values * n_tokens);
    }
    NodeParams own{};
    std::memcpy(&own.op, made.node->op_params, sizeof own.op);
    own.n_tokens = static_cast<int32_t>(n_tokens);
    own.rows = site.rows;
    own.eps = eps_of(site.norm);
    own.post_eps = eps_of(site.post_norm);
    ggml_set_op_params(made.node, &own, sizeof own);
    ggml_format_name(made.node, "rows of %s", site.input->name);
    return made;
}

#ifdef ORIN_CUDA
namespace {

static_assert(max_matrix_parts == cuda::max_prefetch_ranges);

// What is not allocated yet has no data.
cuda::PrepareRowsParams kernel_params(const ggml_tensor & node) {
    NodeParams own;
    std::memcpy(&own, node.op_params, sizeof own);
    const auto floats = [&](Source slot) -> const float * {
        return node.src[slot] == nullptr ? nullptr : static_cast<const float *>(node.src[slot]->data);
    };
    cuda::PrepareRowsParams p{};
    p.n_tokens = std::max(1, own.n_tokens);  // without tokens it is not launched
    p.n_values = static_cast<int32_t>(node.src[source_x]->ne[0]);
    p.x = floats(source_x);
    p.x_stride = p.n_values;
    p.residual = floats(source_residual);
    p.residual_stride = p.n_values;
    p.post_weight = floats(source_post_weight);
    p.post_eps = own.post_eps;
    p.weight = floats(source_weight);
    p.eps = own.eps;
    auto * out = static_cast<float *>(node.data);
    if (node.src[source_residual] != nullptr) {
        p.sum = out;
        out = out == nullptr ? nullptr : out + int64_t{p.n_values} * p.n_tokens;
    }
    p.rows = {static_cast<cuda::RowFormat>(own.rows), p.n_values, out};
    const auto & setup = *static_cast<const MatrixSetup *>(own.op.userdata);
    int64_t left = setup.prefetch_bytes(own.n_tokens);
    for (int i = 0; i < cuda::max_prefetch_ranges; i++) {
        if (const ggml_tensor * weights = node.src[source_next_weights + i]) {
            const int64_t n_bytes = std::min(left, static_cast<int64_t>(ggml_nbytes(weights)));
            p.prefetch.ranges[i] = {weights->data, n_bytes};
            left -= n_bytes;
        }
    }
    return p;
}

bool supports(const ggml_tensor * node) {
    return cuda::can_prepare_rows(kernel_params(*node));
}

int launch(ggml_tensor * node, void *, void * stream) {
    return cuda::prepare_rows(kernel_params(*node), static_cast<cudaStream_t>(stream));
}

}  // namespace

void register_activation_op() {
    register_custom_op({compute_on_cpu, supports, launch});
}
#endif

}  // namespace orin
