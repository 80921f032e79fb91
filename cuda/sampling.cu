#include <algorithm>

#include "sampling.h"
#include "sampling_draw.cuh"
#include "sampling_scan.cuh"
#include "sampling_spread.cuh"

namespace orin::cuda {
namespace {

bool is_valid(const SamplingParams & p) {
    return p.n_rows >= 0 && p.n_rows <= 65535 && p.n_vocab >= 1 && p.row_stride >= p.n_vocab &&
           (p.n_rows == 0 ||
            (p.logits != nullptr && p.lanes != nullptr && p.workspace != nullptr && p.tokens != nullptr)) &&
           p.max_recent >= 0 && (p.max_recent == 0 || p.recent != nullptr) && p.max_bias >= 0 &&
           (p.max_bias == 0 || p.bias != nullptr);
}

}  // namespace

size_t sampling_workspace_bytes(int32_t n_rows, int32_t n_vocab) {
    const auto n_chunks = static_cast<size_t>(chunks_of(n_vocab));
    return static_cast<size_t>(n_rows) *
           (sizeof(RowState) + n_chunks * (sizeof(ChunkState) + chunk_size * sizeof(Rank)));
}

void group_bias(sampling::Bias * bias, int32_t n_bias) {
    std::stable_sort(bias, bias + n_bias,
                     [](const sampling::Bias & a, const sampling::Bias & b) { return a.token < b.token; });
}

cudaError_t sample(const SamplingParams & params, cudaStream_t stream) {
    if (!is_valid(params)) {
        return cudaErrorInvalidValue;
    }
    if (params.n_rows == 0) {
        return cudaSuccess;
    }
    const dim3 grid(static_cast<unsigned>(chunks_of(params.n_vocab)), static_cast<unsigned>(params.n_rows));
    ORIN_LAUNCH(sampling_scan_kernel, grid, block_threads, sizeof(ScanMemory), stream, params);
    ORIN_LAUNCH(sampling_spread_kernel, grid, block_threads, sizeof(SpreadMemory), stream, params);
    ORIN_LAUNCH(sampling_draw_kernel, grid, block_threads, sizeof(DrawMemory), stream, params);
    return cudaGetLastError();
}

}  // namespace orin::cuda
