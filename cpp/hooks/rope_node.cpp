#include "rope_node.h"

#include <cstring>

#include "ggml-backend.h"
#include "ggml.h"
#include "include/orin_hooks.h"

namespace orin {

namespace {

float float_param(const ggml_tensor & node, int slot) {
    float value;
    std::memcpy(&value, node.op_params + slot, sizeof(value));
    return value;
}

std::optional<RopeAxes> axes_of(int32_t mode) {
    switch (mode) {
        case GGML_ROPE_TYPE_NORMAL:
        case GGML_ROPE_TYPE_NEOX:
            return RopeAxes::single;
        case GGML_ROPE_TYPE_MROPE:
            return RopeAxes::sections;
        case GGML_ROPE_TYPE_IMROPE:
            return RopeAxes::interleaved;
        default:
            return std::nullopt;
    }
}

}  // namespace

bool is_weight(const ggml_tensor & tensor) {
    return tensor.op == GGML_OP_NONE && tensor.type == GGML_TYPE_F32 && tensor.data != nullptr &&
           tensor.buffer != nullptr &&
           ggml_backend_buffer_get_usage(tensor.buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

std::optional<RopeParams> rope_params(const ggml_tensor & node) {
    const ggml_tensor * factors = node.op == GGML_OP_ROPE ? node.src[2] : nullptr;
    if (factors == nullptr) {
        return rope_params(node, {});
    }
    if (!is_weight(*factors) || !ggml_backend_buffer_is_host(factors->buffer)) {
        return std::nullopt;
    }
    const auto * values = static_cast<const float *>(factors->data);
    return rope_params(node, std::vector<float>(values, values + factors->ne[0]));
}

std::optional<RopeParams> rope_params(const ggml_tensor & node, const std::vector<float> & factors) {
    if (node.op != GGML_OP_ROPE) {
        return std::nullopt;
    }
    const auto axes = axes_of(node.op_params[2]);
    if (!axes) {
        return std::nullopt;
    }
    RopeParams params;
    params.axes = *axes;
    params.n_dims = node.op_params[1];
    params.freq_base = float_param(node, 5);
    params.freq_scale = float_param(node, 6);
    params.ext_factor = float_param(node, 7);
    params.attn_factor = float_param(node, 8);
    if (params.ext_factor != 0.0f) {
        const int32_t n_ctx_orig = node.op_params[4];
        ggml_rope_yarn_corr_dims(params.n_dims, n_ctx_orig, params.freq_base, float_param(node, 9),
                                 float_param(node, 10), params.corr_dims.data());
    }
    if (params.axes != RopeAxes::single) {
        std::memcpy(params.sections.data(), node.op_params + 11, sizeof(params.sections));
    }
    if (!factors.empty()) {
        const size_t n = params.n_dims < 0 ? factors.size() + 1 : static_cast<size_t>(params.n_dims) / 2;
        if (n > factors.size()) {
            return std::nullopt;
        }
        params.freq_factors.assign(factors.begin(), factors.begin() + static_cast<std::ptrdiff_t>(n));
    }
    return params.tabulable() ? std::optional(params) : std::nullopt;
}

void stamp_rope_table(ggml_tensor & node, RopeTable & table) {
    const auto address = uint64_t(reinterpret_cast<uintptr_t>(&table));
    node.op_params[ORIN_ROPE_SLOT_LOW] = int32_t(uint32_t(address));
    node.op_params[ORIN_ROPE_SLOT_HIGH] = int32_t(uint32_t(address >> 32));
}

}  // namespace orin
