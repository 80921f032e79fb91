// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): random words from a counter.
#pragma once

#include <cstdint>

#include "device.h"

namespace orin::sampling {

struct PhiloxCounter {
    uint32_t words[4];

    ORIN_HOST_DEVICE uint32_t operator[](int i) const { return words[i]; }
    bool operator==(const PhiloxCounter & other) const {
        return words[0] == other[0] && words[1] == other[1] && words[2] == other[2] && words[3] == other[3];
    }
};

struct PhiloxKey {
    uint32_t words[2];
};

ORIN_HOST_DEVICE inline PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
        const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
        counter = {{static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key.words[0], static_cast<uint32_t>(b),
                    static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key.words[1], static_cast<uint32_t>(a)}};
        key.words[0] += 0x9E3779B9u;
        key.words[1] += 0xBB67AE85u;
    }
    return counter;
}

// The random words of a place, the same for every row.
ORIN_HOST_DEVICE inline uint64_t random_words(uint64_t seed, uint32_t choice, uint64_t position) {
    const PhiloxCounter words =
        philox4x32_10({{static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), choice, 0}},
                      {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}});
    return words[0] | uint64_t{words[1]} << 32;
}

}  // namespace orin::sampling
