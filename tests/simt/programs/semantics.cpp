// What the emulation gives kernels: each case launches kernels in many orders and compares with what CUDA promises.
#include <cuda_runtime.h>

#include <device/intrinsics.cuh>
#include <numeric>
#include <set>
#include <vector>

#include "orders.h"

namespace {

using namespace orin::cuda;
using orin::in_every_order;
using orin::run;
constexpr unsigned everyone = 0xFFFFFFFF;

// The fault that a kernel runs into, or "".
template <typename... Parameters, typename... Arguments>
std::string fault_of(void (*kernel)(Parameters...), unsigned threads, Arguments... arguments) {
    try {
        run(kernel, 1, threads, 1024, arguments...);
    } catch (const simt::Fault & fault) {
        return fault.what();
    }
    return "";
}

bool contains(const std::string & text, const std::string & part) {
    return text.find(part) != std::string::npos;
}

// --- barriers

__global__ void reverse(int * values, bool with_barrier) {
    auto * shared = shared_memory<int>();
    shared[threadIdx.x] = values[threadIdx.x];
    if (with_barrier) {
        __syncthreads();
    }
    values[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

void a_missing_barrier_is_seen_in_some_order_and_none_with_it() {
    std::vector<int> expected(100);
    std::iota(expected.rbegin(), expected.rend(), 0);
    std::set<bool> right;
    in_every_order([&] {
        for (const bool with_barrier : {false, true}) {
            std::vector<int> values(100);
            std::iota(values.begin(), values.end(), 0);
            run(reverse, 1, 100, 400, values.data(), with_barrier);
            if (with_barrier) {
                CHECK(values == expected);
            } else {
                right.insert(values == expected);
            }
        }
    });
    CHECK(right.count(false) == 1);
}

// Warp 0 is read by warp 1, and the other way round: only an order that mixes warps, or turns them round, tells.
__global__ void across_warps(int * values, bool with_barrier) {
    auto * shared = shared_memory<int>();
    for (int round = 0; round < 3; round++) {
        shared[threadIdx.x] = values[threadIdx.x] + round;
        if (with_barrier) {
            __syncthreads();
        } else {
            __syncwarp();
        }
        values[threadIdx.x] = shared[(threadIdx.x + 32) % 64];
        if (with_barrier) {
            __syncthreads();
        } else {
            __syncwarp();
        }
    }
}

void a_barrier_of_warps_does_not_do_for_a_block() {
    std::set<std::vector<int>> seen;
    std::set<std::vector<int>> seen_with_barrier;
    in_every_order([&] {
        for (const bool with_barrier : {false, true}) {
            std::vector<int> values(64);
            std::iota(values.begin(), values.end(), 0);
            run(across_warps, 1, 64, 256, values.data(), with_barrier);
            (with_barrier ? seen_with_barrier : seen).insert(values);
        }
    });
    CHECK(seen.size() > 1 && seen_with_barrier.size() == 1);
}

__global__ void early_exit(int * values) {
    if (threadIdx.x >= 40) {
        return;
    }
    values[threadIdx.x] = __syncthreads_count(threadIdx.x % 2 == 0) + 100 * __syncthreads_or(threadIdx.x == 39);
}

void threads_that_have_ended_are_not_waited_for() {
    in_every_order([] {
        std::vector<int> values(64, -1);
        run(early_exit, 1, 64, 0, values.data());
        for (int i = 0; i < 64; i++) {
            CHECK(values[static_cast<size_t>(i)] == (i < 40 ? 120 : -1));
        }
    });
}

__global__ void no_barrier_for_all(int) {
    if (threadIdx.x < 32) {
        __syncthreads();
        __syncthreads();
    } else {
        __syncwarp(1u << (threadIdx.x % 32));
        __syncthreads_or(0);
    }
}

__global__ void half_a_warp_waits(int) {
    if (threadIdx.x < 16) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

__global__ void mask_without_self(int) {
    __shfl_sync(0x1u, 1.0f, 0);
}

__global__ void mask_of_missing_lanes(int) {
    __ballot_sync(everyone, 1);
}

__global__ void waits_for_the_ended(int) {
    if (threadIdx.x >= 16) {
        return;
    }
    __syncwarp();
}

__global__ void different_shuffles(int) {
    if (threadIdx.x % 2 == 0) {
        __shfl_xor_sync(everyone, 1, 1);
    } else {
        __shfl_sync(everyone, 1, 0);
    }
}

__global__ void reads_outside_the_mask(int) {
    if (threadIdx.x < 16) {
        __shfl_xor_sync(0xFFFFu, 1, 16);
    }
}

void what_no_gpu_guarantees_is_a_fault() {
    in_every_order([] {
        CHECK(contains(fault_of(no_barrier_for_all, 64, 0), "__syncthreads"));
        CHECK(contains(fault_of(half_a_warp_waits, 32, 0), "wait for one another"));
        CHECK(contains(fault_of(mask_without_self, 32, 0), "not in the mask"));
        CHECK(contains(fault_of(mask_of_missing_lanes, 20, 0), "which the block does not have"));
        CHECK(!fault_of(waits_for_the_ended, 32, 0).empty());
        CHECK(contains(fault_of(different_shuffles, 32, 0), "of the same group"));
        CHECK(contains(fault_of(reads_outside_the_mask, 32, 0), "not in the mask"));
    });
}

// --- warps

__global__ void shuffles(int * out, int width) {
    const int lane = static_cast<int>(threadIdx.x);
    out[lane] = __shfl_sync(everyone, lane, 5, width);
    out[32 + lane] = __shfl_xor_sync(everyone, lane, 3, width);
    out[64 + lane] = __shfl_down_sync(everyone, lane, 2, width);
    out[96 + lane] = __shfl_up_sync(everyone, lane, 2, width);
}

void shuffles_read_the_lanes_that_they_should() {
    in_every_order([] {
        for (const int width : {4, 8, 16, 32}) {
            std::vector<int> out(128);
            run(shuffles, 1, 32, 0, out.data(), width);
            for (int lane = 0; lane < 32; lane++) {
                const int first = lane / width * width;
                const auto at = [&](int row) { return out[static_cast<size_t>(row * 32 + lane)]; };
                CHECK(at(0) == first + 5 % width);
                CHECK(at(1) == (lane ^ 3));
                CHECK(at(2) == (lane - first + 2 < width ? lane + 2 : lane));
                CHECK(at(3) == (lane - first >= 2 ? lane - 2 : lane));
            }
        }
    });
}

__global__ void votes_of_halves(unsigned * out) {
    const unsigned lane = threadIdx.x;
    const unsigned mask = lane < 16 ? 0x0000FFFFu : 0xFFFF0000u;
    unsigned result = 0;
    if (lane < 16) {  // both halves are on their way at the same time
        result = __ballot_sync(mask, lane % 3 == 0);
        result += static_cast<unsigned>(__all_sync(mask, 1) + 2 * __any_sync(mask, lane == 3)) << 20;
    } else {
        result = __reduce_add_sync(mask, lane) + 1000 * __reduce_max_sync(mask, lane) +
                 100000 * __reduce_min_sync(mask, lane);
    }
    out[lane] = result;
}

void halves_of_a_warp_may_go_their_own_ways() {
    in_every_order([] {
        std::vector<unsigned> out(32);
        run(votes_of_halves, 1, 32, 0, out.data());
        for (unsigned lane = 0; lane < 32; lane++) {
            CHECK(out[lane] == (lane < 16 ? 0x9249u + (3u << 20) : 376u + 31000u + 1600000u));
        }
    });
}

// --- atomics and blocks

__global__ void last_block_sums(int * parts, int * total, unsigned * arrived) {
    auto * is_last = shared_memory<int>();
    atomicAdd(&parts[blockIdx.x], static_cast<int>(threadIdx.x));
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        *is_last = atomicAdd(arrived, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (*is_last != 0 && threadIdx.x < gridDim.x) {
        atomicAdd(total, parts[threadIdx.x]);
    }
}

__global__ void counter_without_atomics(int * counter) {
    const int seen = *counter;
    __syncwarp();
    *counter = seen + 1;
}

void atomics_add_up_and_the_last_block_is_one() {
    in_every_order([] {
        std::vector<int> parts(5, 0);
        int total = 0;
        unsigned arrived = 0;
        run(last_block_sums, 5, 64, 16, parts.data(), &total, &arrived);
        CHECK(total == 5 * 2016 && arrived == 5);
        int counter = 0;
        run(counter_without_atomics, 1, 32, 0, &counter);
        CHECK(counter == 1);
    });
}

__global__ void write_index(int * out) {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    atomicAdd(&out[block * blockDim.x * blockDim.y * blockDim.z + thread], 1);
}

void every_thread_of_every_block_runs_once() {
    in_every_order([] {
        std::vector<int> out(2 * 3 * 4 * 5 * 6 * 7, 0);
        run(write_index, dim3(2, 3, 4), dim3(5, 6, 7), 0, out.data());
        CHECK(out == std::vector<int>(out.size(), 1));
    });
}

__global__ void nothing(int) {}

void launches_that_a_gpu_refuses_are_refused() {
    const auto error_of = [](dim3 grid, dim3 block, size_t shared_bytes) {
        ORIN_LAUNCH(nothing, grid, block, shared_bytes, nullptr, 0);
        return cudaGetLastError();
    };
    CHECK(error_of(1, 1024, 48 << 10) == cudaSuccess);
    CHECK(error_of(1, 1025, 0) == cudaErrorInvalidConfiguration);
    CHECK(error_of(0, 32, 0) == cudaErrorInvalidConfiguration);
    CHECK(error_of(dim3(1, 65536), 32, 0) == cudaErrorInvalidConfiguration);
    CHECK(error_of(1, 32, (48 << 10) + 1) == cudaErrorInvalidConfiguration);
    CHECK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10) == cudaSuccess);
    CHECK(error_of(1, 32, 100 << 10) == cudaSuccess);
    CHECK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 164 << 10) != cudaSuccess);
    CHECK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10) == cudaSuccess);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);  // of the call before: kept until it is asked for
    CHECK(cudaGetLastError() == cudaSuccess);
}

// --- asynchronous copies

__global__ void copied(const int * in, int * out, int n_left) {
    auto * shared = shared_memory<int>();
    for (unsigned part = 0; part < 2; part++) {
        copy_async<16>(shared + part * 128 + threadIdx.x * 4, in + part * 128 + threadIdx.x * 4);
        copy_async_commit();
    }
    if (n_left == 1) {
        copy_async_wait<1>();
    } else {
        copy_async_wait<0>();
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < 256; i += 32) {
        out[i] = shared[i];
    }
    copy_async_wait<0>();
}

__global__ void never_waits(const int * in) {
    copy_async<4>(shared_memory<int>(), in);
    copy_async_commit();
}

__global__ void misaligned_copy(const int * in) {
    copy_async<16>(shared_memory<int>(), in + 1);
    copy_async_wait<0>();
}

void copies_arrive_when_they_are_waited_for_and_not_before() {
    alignas(16) static int in[256];
    std::iota(in, in + 256, 0);
    in_every_order([&] {
        std::vector<int> out(256);
        run(copied, 1, 32, 1024, in, out.data(), 0);
        CHECK(std::equal(out.begin(), out.end(), in));
        run(copied, 1, 32, 1024, in, out.data(), 1);
        CHECK(std::equal(out.begin(), out.begin() + 128, in));
        CHECK(!std::equal(out.begin() + 128, out.end(), in + 128));
        CHECK(contains(fault_of(never_waits, 1, in), "without waiting for a copy"));
        CHECK(contains(fault_of(misaligned_copy, 1, in), "not aligned"));
    });
}

}  // namespace

int main() {
    a_missing_barrier_is_seen_in_some_order_and_none_with_it();
    a_barrier_of_warps_does_not_do_for_a_block();
    threads_that_have_ended_are_not_waited_for();
    what_no_gpu_guarantees_is_a_fault();
    shuffles_read_the_lanes_that_they_should();
    halves_of_a_warp_may_go_their_own_ways();
    atomics_add_up_and_the_last_block_is_one();
    every_thread_of_every_block_runs_once();
    launches_that_a_gpu_refuses_are_refused();
    copies_arrive_when_they_are_waited_for_and_not_before();
}
