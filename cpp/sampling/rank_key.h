// Logits as integers of the same order: selection compares, counts and narrows ranges of keys.
#pragma once

#include <cstdint>
#include <cstring>

#include "device.h"

namespace orin::sampling {

namespace detail {
constexpr uint32_t key_offset = 0x807fffffu;  // makes the key of -inf 0

// Orders sign-and-magnitude bits as two's complement, and back.
ORIN_HOST_DEVICE inline uint32_t flip_negative(uint32_t bits) {
    return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) >> 1);
}
}  // namespace detail

// +inf and every NaN, of either sign, have this key or a larger one; no other value has.
constexpr uint32_t first_invalid_key = 0x7f800000u - detail::key_offset;

// a < b exactly where rank_key(a) < rank_key(b). -0 counts as +0.
ORIN_HOST_DEVICE inline uint32_t rank_key(float logit) {
    const float unsigned_zero = logit + 0.0f;
    uint32_t bits;
    std::memcpy(&bits, &unsigned_zero, sizeof bits);
    return detail::flip_negative(bits) - detail::key_offset;
}

ORIN_HOST_DEVICE inline float logit_of(uint32_t key) {
    const uint32_t bits = detail::flip_negative(key + detail::key_offset);
    float logit;
    std::memcpy(&logit, &bits, sizeof logit);
    return logit;
}

}  // namespace orin::sampling
