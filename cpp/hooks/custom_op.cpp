#include "custom_op.h"

#include <cstring>
#include <forward_list>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>

#include "ggml-impl.h"
#include "include/orin_hooks.h"

namespace orin {

namespace {

constexpr int cuda_error_not_supported = 801;  // cudaErrorNotSupported; this file is built without CUDA too

struct Registry {
    std::shared_mutex lock;
    std::forward_list<CustomOp> ops;
};

Registry & registry() {
    static Registry instance;
    return instance;
}

ggml_custom_op_params node_params(const ggml_tensor & node) {
    ggml_custom_op_params params;
    std::memcpy(&params, node.op_params, sizeof(params));
    return params;
}

const CustomOp * find(const Registry & registry, ggml_custom_op_t fun) {
    for (const CustomOp & op : registry.ops) {
        if (op.fun == fun) {
            return &op;
        }
    }
    return nullptr;
}

const CustomOp * find_custom_op(const ggml_tensor & node) {
    if (node.op != GGML_OP_CUSTOM) {
        return nullptr;
    }
    const std::shared_lock<std::shared_mutex> lock(registry().lock);
    return find(registry(), node_params(node).fun);
}

}  // namespace

void register_custom_op(const CustomOp & op) {
    const std::unique_lock<std::shared_mutex> lock(registry().lock);
    if (const CustomOp * known = find(registry(), op.fun)) {
        if (known->supports != op.supports || known->launch != op.launch) {
            throw std::logic_error("this custom op has another CUDA launcher already");
        }
        return;
    }
    registry().ops.push_front(op);
}

}  // namespace orin

bool orin_cuda_custom_supports(const ggml_tensor * op) {
    const orin::CustomOp * custom = orin::find_custom_op(*op);
    return custom != nullptr && custom->supports(op);
}

int orin_cuda_custom_launch(ggml_tensor * op, void * stream) {
    const orin::CustomOp * custom = orin::find_custom_op(*op);
    if (custom == nullptr) {
        return orin::cuda_error_not_supported;
    }
    return custom->launch(op, orin::node_params(*op).userdata, stream);
}
