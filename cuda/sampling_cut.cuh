// Where a ranked list reaches a sum, without sorting it: cpp/sampling/cut.h for a block of threads.
#pragma once

#include "sampling_block.cuh"

namespace orin::cuda {

struct CutMemory {
    BlockMemory block;
    union {
        SplitSum sums[block_threads];  // by bucket of ranks
        struct {
            Rank ranks[block_threads];
            uint32_t weights[block_threads];
        } few;
    };
    uint32_t n_few;
    Rank cut;
};

// The same of so few items that each thread has one and looks at all.
template <typename Item, typename Weight>
__device__ Rank find_cut_of_few(CutMemory & memory, int32_t n_items, const Range & range, Sum needed, const Item & item,
                                const Weight & weight) {
    if (thread_index() == 0) {
        memory.n_few = 0;
    }
    __syncthreads();
    for (int32_t i = thread_index(); i < n_items; i += block_threads) {
        const Rank rank = item(i);
        if (rank >= range.lowest && rank <= range.highest) {
            const uint32_t place = atomicAdd(&memory.n_few, 1u);
            memory.few.ranks[place] = rank;
            memory.few.weights[place] = weight(rank);
        }
    }
    __syncthreads();
    const int32_t n_few = static_cast<int32_t>(memory.n_few);
    if (thread_index() < n_few) {
        const Rank own = memory.few.ranks[thread_index()];
        Sum before = 0;
        for (int32_t i = 0; i < n_few; ++i) {
            before += memory.few.ranks[i] < own ? memory.few.weights[i] : 0;
        }
        if (before < needed && needed <= before + memory.few.weights[thread_index()]) {
            memory.cut = own;
        }
    }
    __syncthreads();
    return memory.cut;
}

// The first rank, in ascending order, at which the weights up to it sum to `needed` or more.
// item(0) … item(n_items - 1): ranks, no two the same. PRECOND: 1 <= needed <= the sum of all weights.
template <typename Item, typename Weight>
__device__ Rank find_cut(CutMemory & memory, int32_t n_items, Sum needed, const Item & item, const Weight & weight) {
    Rank first = 0;
    Rank last = ~Rank{0};  // those in question are from first to last
    for (;;) {
        Range own{~Rank{0}, 0, 0};
        for (int32_t i = thread_index(); i < n_items; i += block_threads) {
            const Rank rank = item(i);
            if (rank >= first && rank <= last) {
                own = {min(own.lowest, rank), max(own.highest, rank), own.count + 1};
            }
        }
        const Range range = join_ranges(memory.block, own);
        if (range.count <= block_threads) {
            return find_cut_of_few(memory, n_items, range, needed, item, weight);
        }
        // Each round divides the range by 256: eight rounds at most, and two or three for logits as models have them.
        const int32_t shift = 64 - __clzll(static_cast<long long>(range.highest - range.lowest)) - 8;
        memory.sums[thread_index()] = {0, 0};
        __syncthreads();
        for (int32_t i = thread_index(); i < n_items; i += block_threads) {
            const Rank rank = item(i);
            if (rank >= range.lowest && rank <= range.highest) {
                memory.sums[(rank - range.lowest) >> shift].add(weight(rank));
            }
        }
        __syncthreads();
        const Picked bucket =
            pick(memory.block, block_threads, needed - 1, [&](int32_t i) { return memory.sums[i].value(); });
        needed -= bucket.before;
        first = range.lowest + (static_cast<Rank>(bucket.index) << shift);
        const Rank size = Rank{1} << shift;
        last = range.highest - first < size ? range.highest : first + size - 1;
    }
}

}  // namespace orin::cuda
