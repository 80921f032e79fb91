// What the threads of a block find together, in integers only: no result depends on the order of threads.
#pragma once

#include "sampling_row.cuh"

namespace orin::cuda {

struct BlockMemory {
    Sum sums[n_warps];
    Rank lowest[n_warps];
    Rank highest[n_warps];
    uint32_t counts[n_warps];
    int32_t picked;
    Sum before_picked;
    bool is_last;
};

__device__ __forceinline__ int32_t thread_index() {
    return static_cast<int32_t>(threadIdx.x);
}

// A sum in shared memory, where only 32 bits are added at once.
struct SplitSum {
    uint32_t low;
    uint32_t high;

    __device__ __forceinline__ void add(uint32_t value) {
        if (atomicAdd(&low, value) > ~value) {
            atomicAdd(&high, 1u);
        }
    }
    __device__ __forceinline__ Sum value() const { return Sum{high} << 32 | low; }
};

struct Prefix {
    Sum before;  // the sum of the values of lower threads
    Sum total;
};

// Of a value of each thread.
__device__ inline Prefix prefix_sum(BlockMemory & memory, Sum value) {
    const int32_t lane = thread_index() % 32;
    const int32_t warp = thread_index() / 32;
    Sum sum = value;  // of the lanes up to this one
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        const Sum lower = __shfl_up_sync(all_lanes, sum, distance);
        sum += lane >= static_cast<int32_t>(distance) ? lower : 0;
    }
    __syncthreads();  // what was here before has been read
    if (lane == 31) {
        memory.sums[warp] = sum;
    }
    __syncthreads();
    Prefix result{sum - value, 0};
    for (int32_t i = 0; i < n_warps; ++i) {
        result.before += i < warp ? memory.sums[i] : 0;
        result.total += memory.sums[i];
    }
    return result;
}

// Of value(0) … value(n - 1).
template <typename Value>
__device__ Sum sum_of(BlockMemory & memory, int32_t n, const Value & value) {
    Sum sum = 0;
    for (int32_t i = thread_index(); i < n; i += block_threads) {
        sum += value(i);
    }
    return prefix_sum(memory, sum).total;
}

struct Picked {
    int32_t index;
    Sum before;  // the sum of the values of lower indices
};

// The first of n indices at which the sum of the values up to it exceeds the target. PRECOND: the sum of all does.
template <typename Value>
__device__ Picked pick(BlockMemory & memory, int32_t n, Sum target, const Value & value) {
    const int32_t per_thread = (n - 1) / block_threads + 1;
    const int32_t first = min(thread_index() * per_thread, n);
    const int32_t end = min(first + per_thread, n);
    Sum sum = 0;
    for (int32_t i = first; i < end; ++i) {
        sum += value(i);
    }
    Sum before = prefix_sum(memory, sum).before;
    if (before <= target && target < before + sum) {
        int32_t i = first;
        for (; before + value(i) <= target; ++i) {
            before += value(i);
        }
        memory.picked = i;
        memory.before_picked = before;
    }
    __syncthreads();
    return {memory.picked, memory.before_picked};
}

// Whether all other thread blocks of a row have been here: the last one sees what they wrote. n_arrived was 0.
__device__ inline bool arrives_last(BlockMemory & memory, uint32_t & n_arrived) {
    __syncthreads();
    if (thread_index() == 0) {
        __threadfence();
        memory.is_last = atomicAdd(&n_arrived, 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    return memory.is_last;
}

struct Range {
    Rank lowest;
    Rank highest;
    uint32_t count;
};

// Of a range of each thread. Where all are empty (count 0, lowest ~0, highest 0) so is the result.
__device__ inline Range join_ranges(BlockMemory & memory, const Range & own) {
    const auto high = [](Rank rank) { return static_cast<uint32_t>(rank >> 32); };
    const auto low = [](Rank rank) { return static_cast<uint32_t>(rank); };
    const uint32_t lowest_high = __reduce_min_sync(all_lanes, high(own.lowest));
    const uint32_t lowest_low = __reduce_min_sync(all_lanes, high(own.lowest) == lowest_high ? low(own.lowest) : ~0u);
    const uint32_t highest_high = __reduce_max_sync(all_lanes, high(own.highest));
    const uint32_t highest_low =
        __reduce_max_sync(all_lanes, high(own.highest) == highest_high ? low(own.highest) : 0u);
    const uint32_t count = __reduce_add_sync(all_lanes, own.count);
    __syncthreads();  // what was here before has been read
    if (thread_index() % 32 == 0) {
        const int32_t warp = thread_index() / 32;
        memory.lowest[warp] = Rank{lowest_high} << 32 | lowest_low;
        memory.highest[warp] = Rank{highest_high} << 32 | highest_low;
        memory.counts[warp] = count;
    }
    __syncthreads();
    Range result{~Rank{0}, 0, 0};
    for (int32_t i = 0; i < n_warps; ++i) {
        result.lowest = min(result.lowest, memory.lowest[i]);
        result.highest = max(result.highest, memory.highest[i]);
        result.count += memory.counts[i];
    }
    return result;
}

}  // namespace orin::cuda
