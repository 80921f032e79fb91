// _native.testing: the hooks alone, driven by tests through small graphs.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "../kv/kv_pool.h"
#include "../loader/not_finite.h"
#include "chain_probe.h"
#include "choice_probe.h"
#include "convert.h"
#include "convert_pages.h"
#include "custom_op_probe.h"
#include "graph_probe.h"
#include "kv_storage_probe.h"
#include "matrix_probe.h"
#include "quantize_probe.h"
#include "rope_probe.h"
#include "rope_store_probe.h"
#include "sampling_probe.h"
#include "step_probe.h"
#include "stock_batch.h"
#include "stock_product.h"

// What --wrap has replaced (cpp/quantize/fast_floats.cpp).
extern "C" bool __real_ggml_validate_row_data(ggml_type, const void *, size_t);

namespace py = pybind11;
using namespace orin;

namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Ints = py::array_t<int32_t, py::array::c_style | py::array::forcecast>;

template <typename T, int flags>
std::vector<T> to_vector(const py::array_t<T, flags> & array) {
    return std::vector<T>(array.data(), array.data() + array.size());
}

Floats rope(EngineHooks & hooks, const Floats & x, const Ints & positions, const RopeProbe & probe) {
    if (x.ndim() != 4) {
        throw py::value_error("x: expected [n_batch, n_tokens, n_head, head_dim]");
    }
    const std::array<int64_t, 4> shape = {x.shape(0), x.shape(1), x.shape(2), x.shape(3)};
    const auto values = to_vector(x);
    const auto pos = to_vector(positions);
    std::vector<float> result;
    {
        py::gil_scoped_release release;
        result = run_rope(probe, shape, values, pos, &hooks);
    }
    return Floats(shape, result.data());
}

py::dict custom_dispatch(const std::vector<float> & x, float scale, float bias) {
    const DispatchReport report = probe_custom_dispatch(x, scale, bias);
    py::dict out;
    out["supports_known"] = report.supports_known;
    out["supports_other_type"] = report.supports_other_type;
    out["supports_unknown"] = report.supports_unknown;
    out["supports_other_op"] = report.supports_other_op;
    out["launch_unknown"] = report.launch_unknown;
    out["launch_known"] = report.launch_known;
    out["second_launcher_fits"] = report.second_launcher_fits;
    out["launched"] = report.launched;
    return out;
}

}  // namespace

void bind_testing(py::module_ & m) {
    py::class_<StepProbe>(m, "StepProbe")
        .def(py::init<std::shared_ptr<Model>, const EngineParams &>(), py::arg("model"), py::arg("params"),
             py::call_guard<py::gil_scoped_release>())
        .def("prefill", &StepProbe::prefill, py::arg("prompt"), py::call_guard<py::gil_scoped_release>())
        .def("decode", &StepProbe::decode, py::arg("token"), py::call_guard<py::gil_scoped_release>())
        .def("forget", &StepProbe::forget)
        .def("logits", [](StepProbe & probe) { return py::array_t<float>(probe.stepper().n_vocab(), probe.logits()); })
        .def_property_readonly("n_tokens", &StepProbe::n_tokens)
        .def_property_readonly("n_graphs_built",
                               [](StepProbe & probe) { return probe.stepper().computer().n_graphs_built(); })
        .def("kv_counters",
             [](StepProbe & probe) -> py::object {
                 if (!probe.stepper().is_paged()) {
                     return py::none();
                 }
                 const KvPool & pool = probe.stepper().kv_pool();
                 py::dict result = to_dict(pool.pages().counters(), pool.pages().page_size());
                 result["page_size"] = pool.pages().page_size();
                 result["page_bytes"] = pool.page_bytes();
                 result["committed_bytes"] = pool.committed_bytes();
                 return result;
             })
        .def("rope_counters", [](StepProbe & probe) { return to_dict(probe.stepper().rope_counters()); })
        .def("rope_store_report", [](StepProbe & probe) { return to_dict(probe.stepper().rope_store_report()); })
        .def("matrix_report", [](StepProbe & probe) { return to_dict(probe.stepper().matrix_report()); });

    py::class_<RopeProbe>(m, "RopeProbe")
        .def(py::init<>())
        .def_readwrite("mode", &RopeProbe::mode)
        .def_readwrite("n_dims", &RopeProbe::n_dims)
        .def_readwrite("n_offs", &RopeProbe::n_offs)
        .def_readwrite("n_ctx_orig", &RopeProbe::n_ctx_orig)
        .def_readwrite("freq_base", &RopeProbe::freq_base)
        .def_readwrite("freq_scale", &RopeProbe::freq_scale)
        .def_readwrite("ext_factor", &RopeProbe::ext_factor)
        .def_readwrite("attn_factor", &RopeProbe::attn_factor)
        .def_readwrite("beta_fast", &RopeProbe::beta_fast)
        .def_readwrite("beta_slow", &RopeProbe::beta_slow)
        .def_readwrite("sections", &RopeProbe::sections)
        .def_readwrite("freq_factors", &RopeProbe::freq_factors)
        .def_readwrite("factors_are_weights", &RopeProbe::factors_are_weights)
        .def_readwrite("f16", &RopeProbe::f16)
        .def_readwrite("backward", &RopeProbe::backward)
        .def_readwrite("n_threads", &RopeProbe::n_threads);

    py::class_<EngineHooks>(m, "EngineHooks")
        .def(py::init([](bool use_rope, int32_t n_ctx) {
                 return std::make_unique<EngineHooks>(HookConfig{use_rope, n_ctx});
             }),
             py::kw_only(), py::arg("rope"), py::arg("n_ctx"))
        .def("run_rope", &rope, py::arg("x"), py::arg("positions"), py::arg("probe"))
        .def_property_readonly("rope_counters",
                               [](const EngineHooks & hooks) { return to_dict(hooks.rope_counters()); })
        .def_property_readonly("n_rope_tables", &EngineHooks::n_rope_tables)
        .def_property_readonly("rope_table_bytes", &EngineHooks::rope_table_bytes);

    py::class_<ChainProbe>(m, "ChainProbe")
        .def(py::init<const sampling::Params &, int32_t, int32_t>(), py::arg("params"), py::kw_only(),
             py::arg("penalty_window"), py::arg("n_vocab"))
        .def("see", &ChainProbe::see, py::arg("token"))
        .def(
            "sample", [](ChainProbe & chain, const Floats & logits) { return chain.sample(logits.data()); },
            py::arg("logits"));

    py::class_<KvStorageProbe>(m, "KvStorage")
        .def(py::init<bool, const std::vector<std::pair<size_t, size_t>> &, int64_t, bool>(), py::kw_only(),
             py::arg("on_gpu"), py::arg("row_bytes"), py::arg("n_cells"), py::arg("may_grow") = true)
        .def("commit", [](KvStorageProbe & probe, int64_t n) { probe.storage().commit(n); })
        .def("give_back", [](KvStorageProbe & probe, int64_t first) { probe.storage().give_back(first); })
        .def("read",
             [](const KvStorageProbe & probe, int64_t first, int32_t n) { return py::bytes(probe.read(first, n)); })
        .def("write", &KvStorageProbe::write)
        .def("copy", &KvStorageProbe::copy)
        .def("wait", &KvStorageProbe::wait)
        .def_property_readonly("committed_bytes",
                               [](KvStorageProbe & probe) { return probe.storage().committed_bytes(); })
        .def_property_readonly("grows", [](KvStorageProbe & probe) { return probe.storage().growth().grows; })
        .def_property_readonly("how", [](KvStorageProbe & probe) { return probe.storage().growth().how; });

    bind_choice_probe(m);
    bind_graph_probe(m);
    bind_matrix_probe(m);
    bind_rope_store_probe(m);
    bind_stock_batch(m);
    bind_quantize_probe(m);
    bind_stock_product(m);
#ifdef ORIN_CUDA
    bind_sampling_probe(m);
#endif

    m.def("find_not_finite", [](uint32_t type, const py::bytes & blocks) {
        const std::string_view view = blocks;
        return find_not_finite(*gguf::find_tensor_type(type), reinterpret_cast<const uint8_t *>(view.data()),
                               view.size());
    });
    m.def("ggml_validates", [](uint32_t type, const py::bytes & blocks) {
        const std::string_view view = blocks;
        return __real_ggml_validate_row_data(static_cast<ggml_type>(type), view.data(), view.size());
    });
    m.def("run_affine", &run_affine, py::kw_only(), py::arg("x"), py::arg("scale"), py::arg("bias"),
          py::arg("n_threads") = 1, py::arg("gpu") = false);
    m.def("probe_custom_dispatch", &custom_dispatch, py::kw_only(), py::arg("x"), py::arg("scale"), py::arg("bias"));
}
