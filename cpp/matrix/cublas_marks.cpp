#include "cublas_marks.h"

#include <algorithm>
#include <iterator>

#include "ggml-backend.h"
#include "ggml-impl.h"
#include "hooks/include/orin_hooks.h"

namespace orin {
namespace {

// ggml's pool keeps the largest for good.
constexpr int64_t most_weights = 256 << 20;  // 512 MiB of f16

// What llama.cpp has a kernel for products of many tokens for, and can decode to f16.
bool is_quantized(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q4_0:
        case GGML_TYPE_Q4_1:
        case GGML_TYPE_Q5_0:
        case GGML_TYPE_Q5_1:
        case GGML_TYPE_Q8_0:
        case GGML_TYPE_Q2_K:
        case GGML_TYPE_Q3_K:
        case GGML_TYPE_Q4_K:
        case GGML_TYPE_Q5_K:
        case GGML_TYPE_Q6_K:
        case GGML_TYPE_IQ1_S:
        case GGML_TYPE_IQ2_XXS:
        case GGML_TYPE_IQ2_XS:
        case GGML_TYPE_IQ2_S:
        case GGML_TYPE_IQ3_XXS:
        case GGML_TYPE_IQ3_S:
        case GGML_TYPE_IQ4_XS:
        case GGML_TYPE_IQ4_NL:
            return true;
        default:
            return false;
    }
}

bool is_matrix(const ggml_tensor & tensor) {
    return tensor.ne[2] == 1 && tensor.ne[3] == 1;
}

bool is_weight(const ggml_tensor & tensor) {
    return tensor.op == GGML_OP_NONE && tensor.view_src == nullptr && tensor.buffer != nullptr &&
           ggml_backend_buffer_get_usage(tensor.buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

// Whether f16 holds what a tensor can be.
bool is_bounded(const ggml_tensor & tensor) {
    switch (tensor.op) {
        case GGML_OP_RMS_NORM:
        case GGML_OP_NORM:
        case GGML_OP_FLASH_ATTN_EXT:
            return true;
        case GGML_OP_MUL:  // by the norm's weights
        case GGML_OP_ADD:  // of the norm's bias
            return is_weight(*tensor.src[1]) && is_bounded(*tensor.src[0]);
        case GGML_OP_RESHAPE:
        case GGML_OP_VIEW:
        case GGML_OP_CONT:
        case GGML_OP_PERMUTE:
        case GGML_OP_GET_ROWS:
            return is_bounded(*tensor.src[0]);
        default:
            return false;
    }
}

bool gains(const ggml_tensor & node, int32_t least_tokens) {
    if (node.op != GGML_OP_MUL_MAT || node.ne[1] < least_tokens || !is_matrix(node)) {
        return false;
    }
    const ggml_tensor & weights = *node.src[0];
    const ggml_tensor & input = *node.src[1];
    const bool asks_for_nothing =
        std::all_of(std::begin(node.op_params), std::end(node.op_params), [](int32_t value) { return value == 0; });
    return asks_for_nothing && is_weight(weights) && is_quantized(weights.type) && ggml_is_contiguous(&weights) &&
           ggml_nelements(&weights) <= most_weights && input.type == GGML_TYPE_F32 && is_bounded(input);
}

}  // namespace

int32_t mark_cublas(ggml_cgraph & graph, int32_t least_tokens) {
    int32_t n_marked = 0;
    for (int i = 0; least_tokens > 0 && i < graph.n_nodes; i++) {
        ggml_tensor & node = *graph.nodes[i];
        if (gains(node, least_tokens)) {
            ggml_set_op_params_i32(&node, ORIN_MUL_MAT_SLOT, 1);
            n_marked++;
        }
    }
    return n_marked;
}

}  // namespace orin
