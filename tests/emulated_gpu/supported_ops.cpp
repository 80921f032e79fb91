#include "supported_ops.h"

#include <initializer_list>

#include "../../cpp/hooks/include/orin_hooks.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

namespace emulated_gpu {
namespace {

bool is_one_of(ggml_type type, std::initializer_list<ggml_type> types) {
    for (const ggml_type other : types) {
        if (type == other) {
            return true;
        }
    }
    return false;
}

bool is_float(ggml_type type) {
    return is_one_of(type, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16});
}

// Of rows that are looked up; ternary weights and some others have no kernel.
bool has_row_kernel(const ggml_tensor & rows) {
    if (is_one_of(rows.type, {GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4})) {
        return rows.ne[0] % 256 == 0;
    }
    return !is_one_of(rows.type, {GGML_TYPE_TQ1_0, GGML_TYPE_TQ2_0, GGML_TYPE_NVFP4, GGML_TYPE_Q8_K, GGML_TYPE_F64,
                                  GGML_TYPE_I64, GGML_TYPE_I16, GGML_TYPE_I8});
}

bool stores_rows(const ggml_tensor & op) {
    const bool converts =
        is_one_of(op.type, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                            GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q8_0, GGML_TYPE_IQ4_NL}) &&
        op.src[0]->type == GGML_TYPE_F32;
    const bool copies = op.type == GGML_TYPE_F16 && op.src[0]->type == GGML_TYPE_F16;
    return (converts || copies) && is_one_of(op.src[1]->type, {GGML_TYPE_I64, GGML_TYPE_I32});
}

bool copies(const ggml_tensor & op) {
    const ggml_type from = op.src[0]->type;
    const ggml_type to = op.src[1]->type;
    const auto quantized = {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1};
    return (is_float(from) && is_float(to)) || (from == GGML_TYPE_F32 && is_one_of(to, quantized)) ||
           (is_one_of(from, quantized) && to == GGML_TYPE_F32) ||
           (from == GGML_TYPE_F32 && is_one_of(to, {GGML_TYPE_IQ4_NL, GGML_TYPE_I32})) ||
           (from == GGML_TYPE_I32 && is_one_of(to, {GGML_TYPE_F32, GGML_TYPE_I32})) ||
           (from == to && ggml_is_contiguous(op.src[0]) && ggml_is_contiguous(op.src[1]));
}

// The kernels that the build compiles (GGML_CUDA_FA_QUANTS), at the head sizes that models have.
bool attends(const ggml_tensor & op) {
    const ggml_tensor & k = *op.src[1];
    const ggml_tensor & v = *op.src[2];
    const ggml_tensor * mask = op.src[3];
    const bool has_types =
        is_one_of(k.type, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0}) &&
        is_one_of(v.type, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0});
    bool has_size = false;
    for (const int64_t size : {40, 64, 72, 80, 96, 112, 128, 256, 512}) {
        has_size = has_size || (k.ne[0] == size && v.ne[0] == size);
    }
    return has_types && has_size && (mask == nullptr || mask->ne[2] == 1);
}

bool multiplies(const ggml_tensor & op) {
    const ggml_tensor & a = *op.src[0];
    const ggml_tensor & b = *op.src[1];
    return a.nb[0] == ggml_type_size(a.type) && b.nb[0] == ggml_type_size(b.type) &&
           (b.type != GGML_TYPE_F16 || a.type == GGML_TYPE_F16) &&
           !is_one_of(a.type, {GGML_TYPE_TQ1_0, GGML_TYPE_TQ2_0, GGML_TYPE_F64});
}

bool cuda_supports(const ggml_tensor & op) {
    switch (op.op) {
        case GGML_OP_MUL_MAT:
        case GGML_OP_MUL_MAT_ID:
            return multiplies(op);
        case GGML_OP_GET_ROWS:
            return has_row_kernel(*op.src[0]);
        case GGML_OP_SET_ROWS:
            return stores_rows(op);
        case GGML_OP_CPY:
            return copies(op);
        case GGML_OP_FLASH_ATTN_EXT:
            return attends(op);
        case GGML_OP_NORM:
        case GGML_OP_RMS_NORM:
        case GGML_OP_L2_NORM:
            return ggml_is_contiguous_rows(op.src[0]);
        case GGML_OP_ROPE:
            return op.src[0]->nb[0] == ggml_type_size(op.src[0]->type) && ggml_is_contiguous_2(op.src[0]);
        case GGML_OP_UNARY:
            return ggml_is_contiguous(op.src[0]);
        case GGML_OP_GLU:
            return ggml_is_contiguous_1(op.src[0]);
        case GGML_OP_SCALE:
            return is_one_of(op.type, {GGML_TYPE_F32, GGML_TYPE_BF16}) && op.src[0]->type == op.type;
        case GGML_OP_REPEAT:
            return is_one_of(op.src[0]->type, {GGML_TYPE_F32, GGML_TYPE_F16});
        case GGML_OP_SUM_ROWS:
        case GGML_OP_MEAN:
            return op.src[0]->type == GGML_TYPE_F32 && op.type == GGML_TYPE_F32 && ggml_is_contiguous_rows(op.src[0]);
        case GGML_OP_MAP_CUSTOM1:
        case GGML_OP_MAP_CUSTOM2:
        case GGML_OP_MAP_CUSTOM3:
            return false;
        default:
            return true;
    }
}

}  // namespace

bool supports(const ggml_tensor & op) {
    if (op.op == GGML_OP_CUSTOM) {
        return orin_cuda_custom_supports(&op);
    }
    static ggml_backend_dev_t cpu = ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
    return cuda_supports(op) && ggml_backend_dev_supports_op(cpu, &op);
}

}  // namespace emulated_gpu
