#include "custom_op_probe.h"

#include <cstring>
#include <stdexcept>

#include "../hooks/affine_op.h"
#include "../hooks/custom_op.h"
#include "../hooks/include/orin_hooks.h"
#include "probe_graph.h"

namespace orin {

namespace {

// Functions of our own as keys, so that the launchers of real ops stay as they are.
void known_function(ggml_tensor * dst, int ith, int nth, void * userdata) {
    affine_cpu(dst, ith, nth, userdata);
}

void unknown_function(ggml_tensor *, int, int, void *) {}

int host_launch(ggml_tensor * op, void * userdata, void * /*stream*/) {
    affine_cpu(op, 0, 1, userdata);
    return 0;
}

int other_launch(ggml_tensor *, void *, void *) {
    return 0;
}

bool can_register(const CustomOp & op) {
    try {
        register_custom_op(op);
        return true;
    } catch (const std::logic_error &) {
        return false;
    }
}

ggml_tensor * custom_node(ggml_context * ctx, ggml_type type, ggml_tensor * x, ggml_custom_op_t fun, void * userdata) {
    return ggml_custom_4d(ctx, type, x->ne[0], 1, 1, 1, &x, 1, fun, GGML_N_TASKS_MAX, userdata);
}

}  // namespace

std::vector<float> run_affine(const std::vector<float> & x, float scale, float bias, int n_threads, bool gpu) {
#ifdef ORIN_CUDA
    register_affine_op();
#endif
    ProbeGraph graph(gpu, n_threads);
    AffineFactors factors{scale, bias};
    ggml_tensor * input = ggml_new_tensor_1d(graph.context(), GGML_TYPE_F32, int64_t(x.size()));
    ggml_tensor * node = affine_node(graph.context(), input, &factors);
    graph.build(node, /*hooks=*/nullptr);
    upload(input, x);
    graph.compute();
    return download(node);
}

DispatchReport probe_custom_dispatch(const std::vector<float> & x, float scale, float bias) {
    register_custom_op({known_function, affine_supports, host_launch});

    ProbeGraph graph(/*gpu=*/false, /*n_threads=*/1);
    ggml_context * ctx = graph.context();
    AffineFactors factors{scale, bias};
    ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, int64_t(x.size()));
    ggml_tensor * known = custom_node(ctx, GGML_TYPE_F32, input, known_function, &factors);
    ggml_tensor * other_type = custom_node(ctx, GGML_TYPE_F16, input, known_function, &factors);
    ggml_tensor * unknown = custom_node(ctx, GGML_TYPE_F32, input, unknown_function, &factors);
    ggml_tensor * other_op = ggml_scale(ctx, input, scale);
    graph.build(known, /*hooks=*/nullptr);
    upload(input, x);
    std::memcpy(other_op->op_params, known->op_params, sizeof(known->op_params));  // differs by its op alone

    DispatchReport report;
    report.supports_known = orin_cuda_custom_supports(known);
    report.supports_other_type = orin_cuda_custom_supports(other_type);
    report.supports_unknown = orin_cuda_custom_supports(unknown);
    report.supports_other_op = orin_cuda_custom_supports(other_op);
    report.launch_unknown = orin_cuda_custom_launch(unknown, nullptr);
    report.launch_known = orin_cuda_custom_launch(known, nullptr);
    report.second_launcher_fits = can_register({known_function, affine_supports, other_launch});
    report.launched = download(known);
    return report;
}

}  // namespace orin
