#include "sampling.h"
#include "sampling_draw.cuh"
#include "sampling_logprobs.cuh"
#include "sampling_scan.cuh"
#include "sampling_spread.cuh"

namespace orin::cuda {
namespace {

// What both calls have.
template <typename Params>
bool has_valid_rows(const Params & p) {
    return p.n_rows >= 0 && p.n_rows <= 65535 && p.n_vocab >= 1 && p.row_stride >= p.n_vocab &&
           (p.n_rows == 0 ||
            (p.logits != nullptr && p.lanes != nullptr && p.tokens != nullptr && p.workspace != nullptr));
}

dim3 grid_of(int32_t n_rows, int32_t n_vocab) {
    return {static_cast<unsigned>(chunks_of(n_vocab)), static_cast<unsigned>(n_rows)};
}

}  // namespace

size_t sampling_workspace_bytes(int32_t n_rows, int32_t n_vocab) {
    const auto n_chunks = static_cast<size_t>(chunks_of(n_vocab));
    return static_cast<size_t>(n_rows) *
           (sizeof(RowState) + n_chunks * (sizeof(ChunkState) + chunk_size * sizeof(Rank)));
}

cudaError_t sample(const SamplingParams & params, cudaStream_t stream) {
    const bool has_tables = params.max_recent >= 0 && (params.max_recent == 0 || params.recent != nullptr) &&
                            params.max_bias >= 0 && (params.max_bias == 0 || params.bias != nullptr);
    if (!has_valid_rows(params) || !has_tables) {
        return cudaErrorInvalidValue;
    }
    if (params.n_rows == 0) {
        return cudaSuccess;
    }
    const dim3 grid = grid_of(params.n_rows, params.n_vocab);
    ORIN_LAUNCH(sampling_scan_kernel, grid, block_threads, sizeof(ScanMemory), stream, params, false);
    ORIN_LAUNCH(sampling_spread_kernel, grid, block_threads, sizeof(SpreadMemory), stream, params);
    ORIN_LAUNCH(sampling_draw_kernel, grid, block_threads, sizeof(CutMemory), stream, params);
    return cudaGetLastError();
}

cudaError_t logprobs(const LogprobsParams & params, cudaStream_t stream) {
    if (!has_valid_rows(params) || (params.n_rows > 0 && params.logprobs == nullptr)) {
        return cudaErrorInvalidValue;
    }
    if (params.n_rows == 0) {
        return cudaSuccess;
    }
    const dim3 grid = grid_of(params.n_rows, params.n_vocab);
    ORIN_LAUNCH(sampling_scan_kernel, grid, block_threads, sizeof(ScanMemory), stream, rows_of(params), true);
    ORIN_LAUNCH(sampling_logprobs_kernel, grid, block_threads, sizeof(CutMemory), stream, params);
    return cudaGetLastError();
}

}  // namespace orin::cuda
