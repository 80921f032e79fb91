// Log-probabilities of the raw logits, after the first launch has looked for their largest ones.
#pragma once

#include <device/launch.cuh>

#include "sampling_gather.cuh"

namespace orin::cuda {

// Exponentials are summed up as integers of this unit: what 2^18 tokens lose is less than 2^-22 of the likeliest one.
constexpr float exponential_unit = 0x1p-40f;

__host__ __device__ inline SamplingParams rows_of(const LogprobsParams & p) {
    SamplingParams rows{};
    rows.logits = p.logits;
    rows.row_stride = p.row_stride;
    rows.n_rows = p.n_rows;
    rows.n_vocab = p.n_vocab;
    rows.lanes = p.lanes;
    rows.workspace = p.workspace;
    return rows;
}

// Writes the token at a place of its row's results.
__device__ inline void put_logprob(const LogprobsParams & p, const Row & row, int32_t place, int32_t token,
                                   double log_sum) {
    p.logprobs[int64_t(blockIdx.y) * (sampling::max_top_logprobs + 1) + place] = {
        token, static_cast<float>(static_cast<double>(row.logits[token]) - log_sum)};
}

__global__ void __launch_bounds__(block_threads, 3) sampling_logprobs_kernel(LogprobsParams p) {
    auto & memory = *shared_memory<CutMemory>();
    const Row row = row_of(rows_of(p), static_cast<int32_t>(blockIdx.y));
    const int32_t n_top = row.lane->n_logprobs;
    const int32_t chosen = n_top < 0 ? -1 : p.tokens[blockIdx.y];
    if (chosen < 0) {
        return;
    }
    const float top = sampling::logit_of(row.top_key());
    Sum sum = 0;
    each_of_chunk(
        row, static_cast<int32_t>(blockIdx.x), [](float) { return true; },
        [&](float logit, int32_t) {
            constexpr float lowest = -87.0f;  // adds nothing to a sum that has a 1 in it
            const float exponential = sampling::scaled_exp(max(logit - top, lowest), 0);
            sum += static_cast<Sum>(exponential / exponential_unit);
        });
    const Sum of_chunk = prefix_sum(memory.block, sum).total;
    if (thread_index() == 0) {
        row.chunks[blockIdx.x].sum = of_chunk;
    }
    if (!arrives_last(memory.block, row.state->n_arrived)) {
        return;
    }
    const Sum total = sum_of(memory.block, row.n_chunks, [&](int32_t i) { return row.chunks[i].sum; });
    const double log_sum =
        static_cast<double>(top) + log(static_cast<double>(total) * static_cast<double>(exponential_unit));
    if (thread_index() == 0) {
        put_logprob(p, row, n_top, chosen, log_sum);
    }
    if (n_top == 0) {
        return;
    }
    const Rank last = gather_likeliest(memory, row, static_cast<uint32_t>(n_top), [](float) { return true; });
    const auto n_items = static_cast<int32_t>(row.state->n_items);
    if (thread_index() == 0) {
        memory.n_few = 0;
    }
    __syncthreads();
    for (int32_t i = thread_index(); i < n_items; i += block_threads) {
        if (row.items[i] <= last) {
            memory.few.ranks[atomicAdd(&memory.n_few, 1u)] = row.items[i];
        }
    }
    __syncthreads();
    if (thread_index() < n_top) {
        const Rank own = memory.few.ranks[thread_index()];
        int32_t place = 0;
        for (int32_t i = 0; i < n_top; ++i) {
            place += memory.few.ranks[i] < own ? 1 : 0;
        }
        put_logprob(p, row, place, id_of(own), log_sum);
    }
}

}  // namespace orin::cuda
