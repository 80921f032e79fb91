#include "rope_store.h"

#include <pybind11/stl.h>

#include <optional>
#include <vector>

#include "bind_kernels.h"
#include "device_array.h"

namespace py = pybind11;

namespace orin::kernels {
namespace {

using Floats = DeviceArray<float>;
using Bytes = DeviceArray<uint8_t>;

// A projection's rows as an array [n_tokens, heads, head_dim].
cuda::HeadRows rows(Floats & array, const Floats::Array & host, Floats & norm, float eps) {
    return {array.data(), host.shape(1) * host.shape(2), host.shape(2), norm.size() > 0 ? norm.data() : nullptr, eps};
}

// Returns what was q, k_cells, v_cells and n_outside. cells: [n_cells, bytes of a row]; norms: [head_dim] of Q, K and
// V, or empty. n_outside: [1], or empty.
py::tuple rope_store(const Floats::Array & q, const std::optional<Floats::Array> & k,
                     const std::optional<Floats::Array> & v, const DeviceArray<int32_t>::Array & positions,
                     const Floats::Array & table, bool neighbours, float q_scale, int32_t k_hadamard,
                     int32_t v_hadamard, const DeviceArray<int64_t>::Array & cells, int32_t k_type, int32_t v_type,
                     const Bytes::Array & k_cells, const Bytes::Array & v_cells,
                     const std::vector<Floats::Array> & norms, const std::vector<float> & eps,
                     const Bytes::Array & prefetched, const DeviceArray<uint32_t>::Array & n_outside) {
    Floats q_rows(q);
    Floats k_rows(k ? *k : Floats::Array(1));
    Floats v_rows(v ? *v : Floats::Array(1));
    DeviceArray<int32_t> device_positions(positions);
    Floats device_table(table);
    DeviceArray<int64_t> device_cells(cells);
    Bytes k_memory(k_cells);
    Bytes v_memory(v_cells);
    Floats q_norm(norms.at(0));
    Floats k_norm(norms.at(1));
    Floats v_norm(norms.at(2));
    Bytes next_weights(prefetched);
    DeviceArray<uint32_t> outside(n_outside);
    cuda::RopeStoreParams p{};
    p.n_tokens = static_cast<int32_t>(q.shape(0));
    p.n_head = static_cast<int32_t>(q.shape(1));
    p.head_dim_k = static_cast<int32_t>(q.shape(2));
    p.head_dim_v = v ? static_cast<int32_t>(v->shape(2)) : p.head_dim_k;
    p.n_head_kv = k ? static_cast<int32_t>(k->shape(1)) : 1;
    p.q = rows(q_rows, q, q_norm, eps.at(0));
    if (k) {
        p.k = rows(k_rows, *k, k_norm, eps.at(1));
        p.v = rows(v_rows, *v, v_norm, eps.at(2));
    }
    p.q_out = q_rows.data();
    p.q_scale = q_scale;
    p.positions = device_positions.data();
    p.table = reinterpret_cast<const float2 *>(device_table.data());
    p.n_positions = static_cast<int32_t>(table.shape(0));
    p.n_outside = outside.size() > 0 ? outside.data() : nullptr;
    p.n_dims = static_cast<int32_t>(table.shape(1) * 2);
    p.pairs = neighbours ? cuda::RopePairs::neighbours : cuda::RopePairs::halves;
    p.k_hadamard = k_hadamard;
    p.v_hadamard = v_hadamard;
    p.cells = device_cells.data();
    p.k_type = static_cast<cuda::KvType>(k_type);
    p.v_type = static_cast<cuda::KvType>(v_type);
    p.k_cells = k_memory.data();
    p.v_cells = v_memory.data();
    p.k_row_bytes = k_cells.shape(1);
    p.v_row_bytes = v_cells.shape(1);
    p.prefetch.ranges[1] = {next_weights.data(), prefetched.size()};
    check(cuda::rope_store(p, nullptr), "rope_store");
    return py::make_tuple(q_rows.read(), k_memory.read(), v_memory.read(), outside.read());
}

}  // namespace

void bind_rope_store(py::module_ & module) {
    module.def("rope_store", &rope_store, py::arg("q"), py::arg("k"), py::arg("v"), py::arg("positions"),
               py::arg("table"), py::arg("neighbours"), py::arg("q_scale"), py::arg("k_hadamard"),
               py::arg("v_hadamard"), py::arg("cells"), py::arg("k_type"), py::arg("v_type"), py::arg("k_cells"),
               py::arg("v_cells"), py::arg("norms"), py::arg("eps"), py::arg("prefetched"), py::arg("n_outside"));
}

}  // namespace orin::kernels
