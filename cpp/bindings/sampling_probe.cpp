#ifdef ORIN_CUDA

#include "sampling_probe.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <stdexcept>

#include "../engine/gpu.h"
#include "convert_sampling.h"
#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "llama-graph.h"

namespace py = pybind11;

namespace orin {
namespace {

constexpr int64_t max_nodes = 64;

}  // namespace

SamplingProbe::SamplingProbe(const std::vector<float> & logits, const DeviceSamplingSizes & sizes) {
    ggml_backend_dev_t device = first_gpu();
    if (device == nullptr) {
        throw std::runtime_error("there is no GPU");
    }
    register_sampling_ops();
    for (ggml_backend_ptr & backend : gpu_) {
        backend.reset(ggml_backend_dev_init(device, nullptr));
    }
    cpu_.reset(ggml_backend_cpu_init());
    weights_.reset(ggml_init({ggml_tensor_overhead(), nullptr, true}));
    logits_ = ggml_new_tensor_2d(weights_.get(), GGML_TYPE_F32, sizes.n_vocab, sizes.n_vocab);
    memory_.reset(ggml_backend_alloc_ctx_tensors_from_buft(weights_.get(), ggml_backend_dev_buffer_type(device)));
    ggml_backend_buffer_set_usage(memory_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_tensor_set(logits_, logits.data(), 0, ggml_nbytes(logits_));
    order_ = std::make_unique<StreamOrder>(device);
    sampling_ = std::make_unique<DeviceSampling>(device, sizes);
}

SamplingProbe::~SamplingProbe() {
    for (ggml_backend_ptr & backend : gpu_) {
        ggml_backend_synchronize(backend.get());
    }
}

SamplingProbe::Graph SamplingProbe::build(int64_t n_tokens, int64_t n_outputs, ggml_backend_t backend) {
    Graph graph;
    graph.result = std::make_unique<llm_graph_result>(max_nodes);
    llm_graph_result & result = *graph.result;
    ggml_context * context = result.get_ctx();
    graph.tokens = ggml_new_tensor_1d(context, GGML_TYPE_I32, n_tokens);
    graph.out_ids = ggml_new_tensor_1d(context, GGML_TYPE_I32, n_outputs);
    ggml_set_input(graph.tokens);
    ggml_set_input(graph.out_ids);
    result.t_inp_tokens = graph.tokens;
    result.t_logits = ggml_get_rows(context, ggml_get_rows(context, logits_, graph.tokens), graph.out_ids);
    ggml_build_forward_expand(result.get_gf(), result.t_logits);
    use_device_sampling(result, sampling_->setup());
    ggml_backend_t backends[] = {backend, cpu_.get()};
    graph.scheduler.reset(ggml_backend_sched_new(backends, nullptr, 2, max_nodes, false, false));
    if (!ggml_backend_sched_alloc_graph(graph.scheduler.get(), result.get_gf())) {
        throw std::runtime_error("no memory for the probe's graph");
    }
    return graph;
}

void SamplingProbe::start(const std::vector<ProbeRow> & rows, int32_t n_idle, int32_t backend, bool fails) {
    StepBatch batch;
    std::vector<OutputDraw> draws;
    std::vector<int32_t> tokens;
    std::vector<int32_t> out_ids;
    for (const ProbeRow & row : rows) {
        const auto index = static_cast<int32_t>(batch.rows.size());
        batch.rows.push_back({row.token, row.sequence, 0, 0, row.sampler != nullptr});
        tokens.push_back(row.token == unknown_token ? 0 : row.token);
        if (row.sampler != nullptr) {
            batch.outputs.push_back({index, row.request});
            draws.push_back({row.sampler, row.n_logprobs, row.position});
            out_ids.push_back(index);
        }
    }
    for (int32_t i = 0; i < n_idle; i++) {
        out_ids.push_back(static_cast<int32_t>(tokens.size()));
        tokens.push_back(0);
    }
    ggml_backend_t gpu = gpu_[backend].get();
    const auto key =
        std::make_tuple(static_cast<int64_t>(tokens.size()), static_cast<int64_t>(out_ids.size()), backend);
    if (graphs_.count(key) == 0) {
        graphs_[key] = build(std::get<0>(key), std::get<1>(key), gpu);
    }
    Graph & graph = graphs_[key];
    order_->enter(gpu);
    sampling_->prepare(batch, draws, n_idle, gpu);
    if (fails) {
        sampling_->abandon();
        return;
    }
    ggml_backend_tensor_set(graph.tokens, tokens.data(), 0, ggml_nbytes(graph.tokens));
    ggml_backend_tensor_set(graph.out_ids, out_ids.data(), 0, ggml_nbytes(graph.out_ids));
    graph.result->set_inputs(nullptr);
    ggml_backend_sched_graph_compute_async(graph.scheduler.get(), graph.result->get_gf());
    sampling_->queue_result(gpu);
}

std::vector<DrawnOutput> SamplingProbe::collect() {
    std::vector<DrawnOutput> drawn;
    sampling_->collect(drawn);
    return drawn;
}

void bind_sampling_probe(py::module_ & m) {
    using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
    py::class_<ProbeRow>(m, "SamplingProbeRow")
        .def(py::init(
                 [](int32_t token, SequenceId sequence, RequestId request, Sampler * sampler, int32_t n_logprobs,
                    uint64_t position) { return ProbeRow{token, sequence, request, sampler, n_logprobs, position}; }),
             py::kw_only(), py::arg("token"), py::arg("sequence"), py::arg("request"), py::arg("sampler"),
             py::arg("n_logprobs"), py::arg("position"), py::keep_alive<1, 5>());

    py::class_<SamplingProbe>(m, "SamplingProbe")
        .def(py::init([](const Floats & logits, int32_t n_sequences, int32_t max_outputs, int32_t max_recent) {
                 const DeviceSamplingSizes sizes = {n_sequences, static_cast<int32_t>(logits.shape(1)), max_outputs,
                                                    max_recent};
                 return std::make_unique<SamplingProbe>(
                     std::vector<float>(logits.data(), logits.data() + logits.size()), sizes);
             }),
             py::arg("logits"), py::kw_only(), py::arg("n_sequences"), py::arg("max_outputs"), py::arg("max_recent"))
        .def("start", &SamplingProbe::start, py::arg("rows"), py::kw_only(), py::arg("n_idle"), py::arg("backend"),
             py::arg("fails"))
        .def("check", &SamplingProbe::check, py::arg("sampler"), py::arg("n_logprobs"))
        .def("collect", [](SamplingProbe & probe) {
            py::list result;
            for (const DrawnOutput & drawn : probe.collect()) {
                result.append(py::make_tuple(drawn.token, to_pairs(drawn.logprobs)));
            }
            return result;
        });
}

}  // namespace orin

#endif
