#include "probe_graph.h"

#include <stdexcept>

#include "../engine/gpu.h"
#include "../hooks/engine_hooks.h"
#include "ggml-cpu.h"

namespace orin {

namespace {

constexpr size_t max_tensors = 16;

ggml_context_ptr make_context(bool with_graph) {
    const size_t bytes = max_tensors * ggml_tensor_overhead() + (with_graph ? ggml_graph_overhead() : 0);
    return ggml_context_ptr(ggml_init({bytes, /*mem_buffer=*/nullptr, /*no_alloc=*/true}));
}

ggml_backend_t make_backend(bool gpu, int n_threads) {
    if (gpu) {
        ggml_backend_dev_t device = first_gpu();
        return device == nullptr ? nullptr : ggml_backend_dev_init(device, nullptr);
    }
    ggml_backend_t backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, n_threads);
    return backend;
}

}  // namespace

ProbeGraph::ProbeGraph(bool gpu, int n_threads)
    : backend_(make_backend(gpu, n_threads)), leaves_(make_context(false)), nodes_(make_context(true)) {
    if (backend_ == nullptr) {
        throw std::runtime_error("expected a GPU, but this build or this machine has none");
    }
}

ggml_tensor * ProbeGraph::leaf(const std::vector<float> & values, ggml_backend_buffer_usage usage) {
    ggml_tensor * tensor = ggml_new_tensor_1d(leaves_.get(), GGML_TYPE_F32, int64_t(values.size()));
    ggml_backend_buffer_ptr buffer(ggml_backend_alloc_ctx_tensors(leaves_.get(), backend_.get()));
    ggml_backend_buffer_set_usage(buffer.get(), usage);
    buffers_.push_back(std::move(buffer));
    upload(tensor, values);
    return tensor;
}

void ProbeGraph::build(ggml_tensor * node, EngineHooks * hooks) {
    graph_ = ggml_new_graph(nodes_.get());
    ggml_build_forward_expand(graph_, node);
    if (hooks != nullptr) {
        hooks->graph_built(graph_);
    }
    buffers_.emplace_back(ggml_backend_alloc_ctx_tensors(nodes_.get(), backend_.get()));
}

void ProbeGraph::compute() {
    if (ggml_backend_graph_compute(backend_.get(), graph_) != GGML_STATUS_SUCCESS) {
        throw std::runtime_error("the graph did not run");
    }
}

void upload(ggml_tensor * tensor, const std::vector<float> & values) {
    if (tensor->type == GGML_TYPE_F16) {
        std::vector<ggml_fp16_t> halves(values.size());
        ggml_fp32_to_fp16_row(values.data(), halves.data(), int64_t(values.size()));
        ggml_backend_tensor_set(tensor, halves.data(), 0, ggml_nbytes(tensor));
    } else {
        ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
    }
}

std::vector<float> download(const ggml_tensor * tensor) {
    std::vector<float> values(size_t(ggml_nelements(tensor)));
    if (tensor->type == GGML_TYPE_F16) {
        std::vector<ggml_fp16_t> halves(values.size());
        ggml_backend_tensor_get(tensor, halves.data(), 0, ggml_nbytes(tensor));
        ggml_fp16_to_fp32_row(halves.data(), values.data(), int64_t(values.size()));
    } else {
        ggml_backend_tensor_get(tensor, values.data(), 0, ggml_nbytes(tensor));
    }
    return values;
}

}  // namespace orin
