// Stands in for cuda/device/intrinsics.cuh: instructions that C++ has no name for, as the PTX ISA defines them.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace orin::cuda {

// --- loads and copies

template <typename Value>
Value load_streaming(const Value * address) {
    return *address;
}
// Counted; and memory that is not the kernel's is found.
inline void prefetch_l2(const void * address) {
    (void)*static_cast<const volatile char *>(address);
    simt::count("prefetches");
}

// Made when the thread waits for it, so that who does not wait finds what was there before.
template <int bytes>
void copy_async(void * shared, const void * global) {
    static_assert(bytes == 4 || bytes == 8 || bytes == 16);
    if (reinterpret_cast<uintptr_t>(shared) % bytes != 0 || reinterpret_cast<uintptr_t>(global) % bytes != 0) {
        throw simt::Fault("copy_async of " + std::to_string(bytes) +
                          " bytes between places that are not aligned to it");
    }
    simt::Block::current().thread().copies.back().push_back([=] { std::memcpy(shared, global, bytes); });
}
inline void copy_async_part(void * shared, const void * global, int n_bytes) {
    if (reinterpret_cast<uintptr_t>(shared) % 16 != 0 || reinterpret_cast<uintptr_t>(global) % 16 != 0) {
        throw simt::Fault("copy_async_part between places that are not aligned to 16 bytes");
    }
    if (n_bytes < 0 || n_bytes > 16) {
        throw simt::Fault("copy_async_part of " + std::to_string(n_bytes) + " bytes, which are not 0 to 16");
    }
    simt::Block::current().thread().copies.back().push_back([=] {
        std::memset(shared, 0, 16);
        std::memcpy(shared, global, static_cast<size_t>(n_bytes));
    });
}
inline void copy_async_commit() {
    simt::Block::current().thread().copies.emplace_back();
}
// Until at most n_left of the groups committed last are under way.
template <int n_left>
void copy_async_wait() {
    auto & groups = simt::Block::current().thread().copies;
    while (groups.size() > n_left + 1) {
        for (const auto & copy : groups.front()) {
            copy();
        }
        groups.pop_front();
    }
}

// --- arithmetic

inline int dot_u8_s8(uint32_t a, uint32_t b, int sum) {
    for (int i = 0; i < 32; i += 8) {
        sum += int(a >> i & 0xFF) * int8_t(b >> i & 0xFF);
    }
    return sum;
}

// --- matrix products of a warp. g = lane / 4, t = lane % 4; each register holds neighbours of a row of A, of a column
// of B, of a row of C.

namespace detail {

template <typename Element>
Element element(const uint32_t * registers, unsigned i) {
    Element result;
    std::memcpy(&result, reinterpret_cast<const char *>(registers) + i * sizeof(Element), sizeof(Element));
    return result;
}

struct Operands {
    uint32_t a[4];
    uint32_t b[2];
};

// A is 16 × k, B k × 8; n elements are in a register, k = 8n.
template <typename Element, typename Sum, typename Multiply>
void multiply(const char * name, Sum (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
              const Multiply & multiply) {
    constexpr unsigned n = 4 / sizeof(Element);
    simt::Block & block = simt::Block::current();
    const unsigned lane = block.thread().lane();
    const auto meeting = block.meet_warp(name, 0xFFFFFFFF, Operands{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = lane / 4 + i / 2 * 8;
        const unsigned column = lane % 4 * 2 + i % 2;
        for (unsigned k = 0; k < 8 * n; k++) {
            // Registers of A: the upper eight rows and the lower ones of the left half, then those of the right half.
            const unsigned half = k / (4 * n);
            const unsigned t = k % (4 * n) / n;
            const auto of_row = meeting->value<Operands>(row % 8 * 4 + t);
            const auto of_column = meeting->value<Operands>(column * 4 + t);
            c[i] = multiply(c[i], element<Element>(of_row.a, (half * 2 + row / 8) * n + k % n),
                            element<Element>(of_column.b, half * n + k % n));
        }
    }
}

struct MatrixRow {
    uint32_t pairs[4];
};

inline std::shared_ptr<const simt::Meeting> meet_with_row(const char * name, const void * row) {
    if (reinterpret_cast<uintptr_t>(row) % 16 != 0) {
        throw simt::Fault(std::string(name) + " of a row that is not aligned to 16 bytes");
    }
    MatrixRow own;
    std::memcpy(own.pairs, row, 16);
    return simt::Block::current().meet_warp(name, 0xFFFFFFFF, own);
}

}  // namespace detail

// C[16, 8] += A[16, 16] · B[16, 8], f16 with sums in f32.
inline void mma_f16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    detail::multiply<__half>("mma_f16", c, a, b,
                             [](float sum, __half x, __half y) { return sum + float(x) * float(y); });
}
// C[16, 8] += A[16, 32] · B[32, 8], int8 with sums in int32.
inline void mma_s8(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    detail::multiply<int8_t>("mma_s8", c, a, b, [](int sum, int8_t x, int8_t y) { return sum + x * y; });
}

// Four 8 × 8 matrices of 16-bit elements from shared memory: lane i passes row i % 8 of matrix i / 8 (8 elements,
// aligned to 16 bytes); register m holds the elements 2t and 2t + 1 of row g of matrix m.
inline void load_matrices(uint32_t (&registers)[4], const void * row) {
    const auto meeting = detail::meet_with_row("load_matrices", row);
    const unsigned lane = simt::Block::current().thread().lane();
    for (unsigned m = 0; m < 4; m++) {
        registers[m] = meeting->value<detail::MatrixRow>(m * 8 + lane / 4).pairs[lane % 4];
    }
}
// The same matrices transposed: register m holds the elements g of rows 2t and 2t + 1 of matrix m.
inline void load_matrices_transposed(uint32_t (&registers)[4], const void * row) {
    const auto meeting = detail::meet_with_row("load_matrices_transposed", row);
    const unsigned lane = simt::Block::current().thread().lane();
    for (unsigned m = 0; m < 4; m++) {
        registers[m] = 0;
        for (unsigned i = 0; i < 2; i++) {
            const auto of_row = meeting->value<detail::MatrixRow>(m * 8 + lane % 4 * 2 + i);
            registers[m] |= uint32_t{detail::element<uint16_t>(of_row.pairs, lane / 4)} << (16 * i);
        }
    }
}

// --- arithmetic

inline float exp2_approximate(float x) {
    const float result = std::exp2(x);
    return result < 0x1p-126f ? 0.0f : result;
}

}  // namespace orin::cuda
