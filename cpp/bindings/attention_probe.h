// Paged attention, llama.cpp's flash attention and its writing of K and V on the same inputs: for tests, benchmarks and
// what tuning reports of page sizes.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../attention/paged_attention.h"
#include "../attention/workspace.h"

namespace orin {

// The inputs of one step. Arrays are not copied.
struct AttentionInputs {
    pybind11::array_t<float> q;    // [n_tokens, n_head, head_dim_k], contiguous in the last dimension
    pybind11::array_t<uint8_t> k;  // [n_cells, bytes]
    pybind11::array_t<uint8_t> v;
    std::string k_type;  // f16, bf16, q8_0 or q4_0
    std::string v_type;
    int32_t n_head_kv = 0;
    int32_t head_dim_v = 0;
    int32_t page_size = 0;
    pybind11::array_t<int32_t> block_tables;  // [n_rows, max_pages]
    pybind11::array_t<int32_t> rows;          // [n_tokens]
    pybind11::array_t<int32_t> positions;     // [n_tokens]
    float scale = 1.0f;
    float softcap = 0.0f;
    int32_t window = 0;
    std::optional<pybind11::array_t<float>> sinks;  // [n_head]
    int32_t max_threads = 1;
};

class AttentionProbe {
   public:
    // Throws std::invalid_argument where sizes do not fit each other.
    explicit AttentionProbe(AttentionInputs inputs);

    using Result = pybind11::array_t<float>;  // [n_tokens, n_head, head_dim_v]

    // By threads of its own, each of which starts late by a random time of up to max_delay_us.
    Result run(int n_threads, int max_delay_us, uint32_t seed);

    // By a graph of llama.cpp. PRECOND: one sequence whose position t lies in cell t.
    Result run_stock(int n_threads);

    // Seconds of one node in a graph of n_nodes equal ones that llama.cpp runs.
    double time(bool stock, int n_threads, int n_nodes);

    // Seconds that a graph of llama.cpp takes to write K and V of all query tokens into the cells of their positions,
    // on average of n_repeats times. Overwrites the cells.
    double time_write(int n_threads, int n_repeats);

    size_t workspace_bytes() const;

   private:
    Result empty_result() const;
    double run_graph(bool stock, int n_threads, int n_nodes, float * out);

    AttentionInputs inputs_;
    attention::Limits limits_;
    attention::PagedAttention op_;
    attention::Workspace workspace_;
    std::vector<uint16_t> mask_;  // f16, [n_tokens, n_kv]
};

void bind_attention_probe(pybind11::module_ & m);

}  // namespace orin
