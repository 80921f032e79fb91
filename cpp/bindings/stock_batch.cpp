#include "stock_batch.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "../engine/runtime.h"

namespace py = pybind11;

namespace orin {

StockBatch::StockBatch(std::shared_ptr<Model> model, int32_t n_ctx, int32_t n_seq, int32_t chunk_size, int32_t threads,
                       KvTypes kv_types)
    : model_(std::move(model)), n_seq_(n_seq), chunk_size_(std::max(chunk_size, n_seq)) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = uint32_t(padded_context(n_ctx) * n_seq);
    params.n_batch = params.n_ubatch = uint32_t(chunk_size_);
    params.n_seq_max = uint32_t(n_seq);
    params.n_outputs_max = params.n_seq_max;
    params.kv_unified = false;
    params.n_threads = params.n_threads_batch = threads;
    params.type_k = kv_types.k;
    params.type_v = kv_types.v;
    params.no_perf = true;
    AbortGuard guard;
    context_.reset(llama_init_from_model(model_->handle(), params));
    if (!context_) {
        throw EngineError("llama.cpp makes no context of " + std::to_string(n_seq) + " × " + std::to_string(n_ctx) +
                          " tokens: " + guard.first_error());
    }
}

std::vector<double> StockBatch::run(int32_t n_prompt, int32_t n_tokens) {
    llama_memory_clear(llama_get_memory(context_.get()), false);
    const auto start = std::chrono::steady_clock::now();
    std::vector<double> times_ms;
    const auto add = [&](int32_t sequence, int32_t position, bool draws) {
        const int32_t token = (position * 7919 + sequence * 104729 + 1) % model_->n_vocab();
        rows_.add(token, position, sequence, draws);
        if (rows_.size() == chunk_size_) {
            step();
        }
    };
    for (int32_t sequence = 0; sequence < n_seq_; sequence++) {
        for (int32_t position = 0; position < n_prompt; position++) {
            add(sequence, position, position == n_prompt - 1);
        }
    }
    for (int32_t n = 0; n < n_tokens; n++) {
        for (int32_t sequence = 0; n > 0 && sequence < n_seq_; sequence++) {
            add(sequence, n_prompt + n - 1, true);
        }
        step();
        times_ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    return times_ms;
}

// What was added, to its end.
void StockBatch::step() {
    if (rows_.size() > 0) {
        compute_rows(context_.get(), rows_);
        rows_.clear();
    }
    llama_synchronize(context_.get());
}

void bind_stock_batch(py::module_ & m) {
    py::class_<StockBatch>(m, "StockBatch")
        .def(py::init([](std::shared_ptr<Model> model, int32_t n_ctx, int32_t n_seq, int32_t chunk_size,
                         int32_t threads, const std::string & k_type, const std::string & v_type) {
                 return std::make_unique<StockBatch>(std::move(model), n_ctx, n_seq, chunk_size, threads,
                                                     KvTypes{kv_type_named(k_type), kv_type_named(v_type)});
             }),
             py::arg("model"), py::kw_only(), py::arg("n_ctx"), py::arg("n_seq"), py::arg("chunk_size"),
             py::arg("threads"), py::arg("k_type"), py::arg("v_type"), py::call_guard<py::gil_scoped_release>())
        .def("run", &StockBatch::run, py::arg("n_prompt"), py::arg("n_tokens"),
             py::call_guard<py::gil_scoped_release>());
}

}  // namespace orin
