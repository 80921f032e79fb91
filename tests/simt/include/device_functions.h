// What a kernel may call: barriers, exchanges within a warp, atomics, arithmetic. Semantics are those of the CUDA C++
// Programming Guide, and stricter where that leaves something open.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "../block.h"

namespace simt {

struct Nothing {};

// --- what lanes of a warp tell one another

template <typename Value, typename Source>
Value shuffle(const char * name, uint32_t mask, Value value, int width, const Source & source) {
    static_assert(std::is_trivially_copyable_v<Value>);
    Block & block = Block::current();
    const int lane = static_cast<int>(block.thread().lane());
    if (width < 1 || width > 32 || (width & (width - 1)) != 0) {
        throw Fault(std::string(name) + " with a width that is no power of two up to 32");
    }
    const auto meeting = block.meet_warp(name, mask, value);
    const int first = lane / width * width;
    const int from = source(lane, first, width);
    if ((mask >> from & 1) == 0) {
        throw Fault(std::string(name) + " from lane " + std::to_string(from) + ", which is not in the mask");
    }
    return meeting->template value<Value>(static_cast<size_t>(from));
}

template <typename Value, typename Combine>
Value reduce_warp(const char * name, uint32_t mask, Value value, const Combine & combine) {
    const auto meeting = Block::current().meet_warp(name, mask, value);
    bool is_first = true;
    Value result{};
    for (unsigned lane = 0; lane < warp_size; lane++) {
        if ((mask >> lane & 1) != 0) {
            const Value other = meeting->template value<Value>(lane);
            result = is_first ? other : combine(result, other);
            is_first = false;
        }
    }
    return result;
}

template <typename Combine>
int reduce_block(const char * name, int value, const Combine & combine) {
    Block & block = Block::current();
    const auto meeting = block.meet_block(name, value);
    int result = combine(0, 0);
    for (const unsigned rank : meeting->arrived) {
        result = combine(result, meeting->template value<int>(rank));
    }
    return result;
}

template <typename Value, typename Change>
Value change_atomically(Value * address, const Change & change) {
    Block::current().hesitate();
    const Value old = *address;
    *address = change(old);
    return old;
}

}  // namespace simt

inline void __syncthreads() {
    simt::Block::current().meet_block("__syncthreads", simt::Nothing{});
}
inline int __syncthreads_or(int predicate) {
    return simt::reduce_block("__syncthreads_or", predicate != 0, [](int a, int b) { return a | b; });
}
inline int __syncthreads_count(int predicate) {
    return simt::reduce_block("__syncthreads_count", predicate != 0, [](int a, int b) { return a + b; });
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFF) {
    simt::Block::current().meet_warp("__syncwarp", mask, simt::Nothing{});
}

template <typename Value>
Value __shfl_sync(unsigned mask, Value value, int lane, int width = 32) {
    return simt::shuffle("__shfl_sync", mask, value, width,
                         [=](int, int first, int n) { return first + (lane & (n - 1)); });
}
template <typename Value>
Value __shfl_xor_sync(unsigned mask, Value value, int bits, int width = 32) {
    return simt::shuffle("__shfl_xor_sync", mask, value, width,
                         [=](int lane, int first, int n) { return (lane ^ bits) < first + n ? lane ^ bits : lane; });
}
template <typename Value>
Value __shfl_down_sync(unsigned mask, Value value, unsigned distance, int width = 32) {
    return simt::shuffle("__shfl_down_sync", mask, value, width, [=](int lane, int first, int n) {
        return lane + static_cast<int>(distance) < first + n ? lane + static_cast<int>(distance) : lane;
    });
}
template <typename Value>
Value __shfl_up_sync(unsigned mask, Value value, unsigned distance, int width = 32) {
    return simt::shuffle("__shfl_up_sync", mask, value, width, [=](int lane, int first, int) {
        return lane - static_cast<int>(distance) >= first ? lane - static_cast<int>(distance) : lane;
    });
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
    const unsigned own = predicate != 0 ? 1u << simt::Block::current().thread().lane() : 0u;
    return simt::reduce_warp("__ballot_sync", mask, own, [](unsigned a, unsigned b) { return a | b; });
}
inline int __any_sync(unsigned mask, int predicate) {
    return simt::reduce_warp("__any_sync", mask, int(predicate != 0), [](int a, int b) { return a | b; });
}
inline int __all_sync(unsigned mask, int predicate) {
    return simt::reduce_warp("__all_sync", mask, int(predicate != 0), [](int a, int b) { return a & b; });
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
    return simt::reduce_warp("__reduce_add_sync", mask, value, [](unsigned a, unsigned b) { return a + b; });
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
    return simt::reduce_warp("__reduce_max_sync", mask, value, [](unsigned a, unsigned b) { return std::max(a, b); });
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
    return simt::reduce_warp("__reduce_min_sync", mask, value, [](unsigned a, unsigned b) { return std::min(a, b); });
}

// Blocks run one after another, and what a thread has written is there.
inline void __threadfence() {}
inline void __threadfence_block() {}

template <typename Value>
Value atomicAdd(Value * address, std::common_type_t<Value> value) {
    return simt::change_atomically(address, [=](Value old) { return Value(old + value); });
}
template <typename Value>
Value atomicMax(Value * address, std::common_type_t<Value> value) {
    return simt::change_atomically(address, [=](Value old) { return std::max(old, Value(value)); });
}
template <typename Value>
Value atomicMin(Value * address, std::common_type_t<Value> value) {
    return simt::change_atomically(address, [=](Value old) { return std::min(old, Value(value)); });
}
template <typename Value>
Value atomicOr(Value * address, std::common_type_t<Value> value) {
    return simt::change_atomically(address, [=](Value old) { return Value(old | value); });
}
template <typename Value>
Value atomicExch(Value * address, std::common_type_t<Value> value) {
    return simt::change_atomically(address, [=](Value) { return Value(value); });
}
template <typename Value>
Value atomicCAS(Value * address, std::common_type_t<Value> expected, std::common_type_t<Value> value) {
    return simt::change_atomically(address, [=](Value old) { return old == Value(expected) ? Value(value) : old; });
}

// --- arithmetic

inline int __dp4a(int a, int b, int c) {
    std::array<int8_t, 4> x;
    std::array<int8_t, 4> y;
    std::memcpy(x.data(), &a, 4);
    std::memcpy(y.data(), &b, 4);
    for (size_t i = 0; i < 4; i++) {
        c += x[i] * y[i];
    }
    return c;
}
// Byte i of the result is the one of {b, a} that digit i of the selector names.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t bytes = uint64_t{b} << 32 | a;
    unsigned result = 0;
    for (unsigned i = 0; i < 4; i++) {
        result |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
    }
    return result;
}
// The lower word of high:low shifted to the right by the lowest five bits of `shift`.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (shift & 31));
}
inline int __popc(unsigned value) {
    return __builtin_popcount(value);
}
inline int __popcll(unsigned long long value) {
    return __builtin_popcountll(value);
}
inline int __clz(int value) {
    return value == 0 ? 32 : __builtin_clz(static_cast<unsigned>(value));
}
inline int __clzll(long long value) {
    return value == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(value));
}
inline int __ffs(int value) {
    return __builtin_ffs(value);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(uint64_t{a} * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline int __float_as_int(float value) {
    int result;
    std::memcpy(&result, &value, 4);
    return result;
}
inline unsigned __float_as_uint(float value) {
    return static_cast<unsigned>(__float_as_int(value));
}
inline float __int_as_float(int value) {
    float result;
    std::memcpy(&result, &value, 4);
    return result;
}
inline float __uint_as_float(unsigned value) {
    return __int_as_float(static_cast<int>(value));
}
inline float __fmaf_rn(float a, float b, float c) {
    return std::fmaf(a, b, c);
}
inline float __fadd_rn(float a, float b) {
    return a + b;
}
inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline float __fdiv_rn(float a, float b) {
    return a / b;
}
inline double __fma_rn(double a, double b, double c) {
    return std::fma(a, b, c);
}
inline float rsqrtf(float value) {
    return 1.0f / std::sqrt(value);
}
inline float __expf(float value) {
    return std::exp(value);
}
inline float __fdividef(float a, float b) {
    return a / b;
}
inline int __float2int_rn(float value) {
    return static_cast<int>(std::nearbyint(value));
}

template <typename Value>
Value __ldg(const Value * address) {
    return *address;
}

using std::max;
using std::min;
