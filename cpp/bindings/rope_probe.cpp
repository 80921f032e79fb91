#include "rope_probe.h"

#include <stdexcept>

#include "probe_graph.h"

namespace orin {

ggml_tensor * rope_node(const RopeProbe & p, ggml_context * ctx, ggml_tensor * x, ggml_tensor * positions,
                        ggml_tensor * factors) {
    auto sections = p.sections;
    ggml_tensor * node = nullptr;
    if ((p.mode & GGML_ROPE_TYPE_MROPE) != 0) {
        node = ggml_rope_multi(ctx, x, positions, factors, p.n_dims, sections.data(), p.mode, p.n_ctx_orig, p.freq_base,
                               p.freq_scale, p.ext_factor, p.attn_factor, p.beta_fast, p.beta_slow);
    } else if (p.backward) {
        node = ggml_rope_ext_back(ctx, x, positions, factors, p.n_dims, p.mode, p.n_ctx_orig, p.freq_base, p.freq_scale,
                                  p.ext_factor, p.attn_factor, p.beta_fast, p.beta_slow);
    } else {
        node = ggml_rope_ext(ctx, x, positions, factors, p.n_dims, p.mode, p.n_ctx_orig, p.freq_base, p.freq_scale,
                             p.ext_factor, p.attn_factor, p.beta_fast, p.beta_slow);
    }
    return p.n_offs == 0 ? node : ggml_rope_set_offset(node, p.n_offs);
}

namespace {

// ggml aborts the process on these; a test that gets them wrong should fail instead.
void check(const RopeProbe & p, const std::array<int64_t, 4> & shape, size_t n_values, size_t n_positions) {
    const auto [n_batch, n_tokens, n_head, head_dim] = shape;
    const int64_t per_token = (p.mode & GGML_ROPE_TYPE_MROPE) != 0 ? 4 : 1;
    if (int64_t(n_values) != n_batch * n_tokens * n_head * head_dim || int64_t(n_positions) != n_tokens * per_token ||
        p.n_offs < 0 || p.n_dims <= 0 || p.n_offs + p.n_dims > head_dim ||
        (!p.freq_factors.empty() && int64_t(p.freq_factors.size()) != p.n_dims / 2)) {
        throw std::invalid_argument("the sizes of x, positions, n_dims and freq_factors do not fit each other");
    }
}

}  // namespace

std::vector<float> run_rope(const RopeProbe & probe, const std::array<int64_t, 4> & shape, const std::vector<float> & x,
                            const std::vector<int32_t> & positions, EngineHooks * hooks) {
    check(probe, shape, x.size(), positions.size());
    ProbeGraph graph(/*gpu=*/false, probe.n_threads);
    ggml_context * ctx = graph.context();
    const auto usage =
        probe.factors_are_weights ? GGML_BACKEND_BUFFER_USAGE_WEIGHTS : GGML_BACKEND_BUFFER_USAGE_COMPUTE;

    ggml_tensor * factors = probe.freq_factors.empty() ? nullptr : graph.leaf(probe.freq_factors, usage);
    ggml_tensor * input =
        ggml_new_tensor_4d(ctx, probe.f16 ? GGML_TYPE_F16 : GGML_TYPE_F32, shape[3], shape[2], shape[1], shape[0]);
    ggml_tensor * pos = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, int64_t(positions.size()));
    ggml_tensor * node = rope_node(probe, ctx, input, pos, factors);

    graph.build(node, hooks);
    upload(input, x);
    ggml_backend_tensor_set(pos, positions.data(), 0, ggml_nbytes(pos));
    graph.compute();
    return download(node);
}

}  // namespace orin
