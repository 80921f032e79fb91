// Unsigned arithmetic that says when it would wrap.
#pragma once

#include <cstdint>
#include <optional>

namespace orin::gguf {

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return std::nullopt;
    }
    return sum;
}

inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return std::nullopt;
    }
    return product;
}

// PRECOND: alignment is a power of two
inline std::optional<uint64_t> checked_align(uint64_t value, uint64_t alignment) {
    const auto raised = checked_add(value, alignment - 1);
    if (!raised) {
        return std::nullopt;
    }
    return *raised & ~(alignment - 1);
}

}  // namespace orin::gguf
