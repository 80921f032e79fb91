// Instructions that C++ has no name for: the only inline PTX there is. tests/simt emulates each under the same name.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace orin::cuda {

// --- loads and copies

// Of what is read once, such as weights: it does not push anything out of L1. Value has 4, 8 or 16 bytes, and is not
// written by anybody while the kernel runs.
template <typename Value>
__device__ __forceinline__ Value load_streaming(const Value * address) {
    static_assert(sizeof(Value) == 4 || sizeof(Value) == 8 || sizeof(Value) == 16);
    union {
        Value value;
        uint32_t words[sizeof(Value) / 4];
    } result;
    uint32_t (&words)[sizeof(Value) / 4] = result.words;
    if constexpr (sizeof(Value) == 16) {
        asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
            : "l"(address));
    } else if constexpr (sizeof(Value) == 8) {
        asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(address));
    } else {
        asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(words[0]) : "l"(address));
    }
    return result.value;
}

// Begins to bring the line that the address is in to L2.
__device__ __forceinline__ void prefetch_l2(const void * address) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// Begins a copy of 4, 8 or 16 bytes; both addresses are multiples of that.
template <int bytes>
__device__ __forceinline__ void copy_async(void * shared, const void * global) {
    static_assert(bytes == 4 || bytes == 8 || bytes == 16);
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    if constexpr (bytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(bytes) : "memory");
    }
}
// The same of the first n_bytes of 16 alone, 0 to 16; the others become 0. Nothing behind them is read.
__device__ __forceinline__ void copy_async_part(void * shared, const void * global, int n_bytes) {
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(n_bytes) : "memory");
}
// The copies since the last commit are a group.
__device__ __forceinline__ void copy_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most n_left of the thread's groups are under way. Others see its copies after a barrier.
template <int n_left>
__device__ __forceinline__ void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(n_left) : "memory");
}

// --- arithmetic

// sum + Σ a[i] · b[i] over four bytes, those of a without a sign and those of b with one. (__dp4a has two with one.)
__device__ __forceinline__ int dot_u8_s8(uint32_t a, uint32_t b, int sum) {
    int result;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

// --- matrix products of a warp. g = lane / 4, t = lane % 4. All lanes take part.

// C[16, 8] += A[16, 16] · B[16, 8], f16 with sums in f32. A register holds two neighbours of a row of A: rows g and g +
// 8 of columns 2t and 2t + 1, then the same 8 columns on; of a column g of B: rows 2t, 2t + 1, then 8 rows on; C:
// columns 2t and 2t + 1 of row g, then of row g + 8.
__device__ __forceinline__ void mma_f16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// C[16, 8] += A[16, 32] · B[32, 8], int8 with sums in int32. As above, with four elements in a register: columns of A
// from 4t, then 16 on; rows of B from 4t, then 16 on.
__device__ __forceinline__ void mma_s8(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four 8 × 8 matrices of 16-bit elements from shared memory: lane i passes row i % 8 of matrix i / 8 (8 elements,
// aligned to 16 bytes); register m holds the elements 2t and 2t + 1 of row g of matrix m.
__device__ __forceinline__ void load_matrices(uint32_t (&registers)[4], const void * row) {
    const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(from)
                 : "memory");
}
// The same matrices transposed: register m holds the elements g of rows 2t and 2t + 1 of matrix m.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&registers)[4], const void * row) {
    const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(from)
                 : "memory");
}

// --- arithmetic

// 2^x to 2 units in the last place; results below the normal numbers are 0.
__device__ __forceinline__ float exp2_approximate(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

}  // namespace orin::cuda
