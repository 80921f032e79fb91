#include "not_finite.h"

#include <algorithm>
#include <cstring>

namespace orin {
namespace {

constexpr uint16_t f16_exponent = 0x7c00;
constexpr uint16_t bf16_exponent = 0x7f80;
constexpr uint32_t f32_exponent = 0x7f800000;
constexpr uint64_t f64_exponent = 0x7ff0000000000000;
constexpr uint8_t not_a_number_e8m0 = 0xff;

template <typename Word>
Word word_at(const uint8_t * data) {
    Word word;
    std::memcpy(&word, data, sizeof(word));
    return word;
}

// Of a number that is not finite all bits of the exponent are set.
template <typename Word>
bool is_not_finite(const uint8_t * data, Word exponent) {
    return (word_at<Word>(data) & exponent) == exponent;
}

// Without a branch and in words of one size, so that the loop is vectorized.
template <typename Word>
bool has_not_finite(const uint8_t * data, size_t n_words, Word exponent) {
    Word found = 0;
    for (size_t i = 0; i < n_words; ++i) {
        found |= static_cast<Word>(is_not_finite(data + i * sizeof(Word), exponent));
    }
    return found != 0;
}

template <typename Word>
std::optional<size_t> find_in_values(const uint8_t * data, size_t nbytes, Word exponent) {
    constexpr size_t looked_at_together = 4096;  // bytes
    for (size_t first = 0; first < nbytes; first += looked_at_together) {
        const size_t last = std::min(nbytes, first + looked_at_together);
        if (!has_not_finite(data + first, (last - first) / sizeof(Word), exponent)) {
            continue;
        }
        for (size_t i = first; i < last; i += sizeof(Word)) {
            if (is_not_finite(data + i, exponent)) {
                return i;
            }
        }
    }
    return std::nullopt;
}

template <typename IsBad>
std::optional<size_t> find_block(const uint8_t * data, size_t nbytes, size_t block_bytes, const IsBad & is_bad) {
    for (size_t i = 0; i < nbytes; i += block_bytes) {
        if (is_bad(data + i)) {
            return i;
        }
    }
    return std::nullopt;
}

bool is_bad_f16(const uint8_t * data) {
    return (word_at<uint16_t>(data) & f16_exponent) == f16_exponent;
}

// The four highest bits of four words are a scale.
bool is_bad_iq1_m(const uint8_t * scales) {
    unsigned scale = 0;
    for (unsigned i = 0; i < 4; i++) {
        scale |= static_cast<unsigned>(word_at<uint16_t>(scales + 2 * i) >> 12) << (4 * i);
    }
    return (scale & f16_exponent) == f16_exponent;
}

// Where in a block its scales of f16 lie; those with one have it twice.
struct Scales {
    uint32_t type_id;
    size_t first;
    size_t second;
};

constexpr Scales scales_of_f16[] = {
    {2, 0, 0},       // Q4_0
    {3, 0, 2},       // Q4_1
    {6, 0, 0},       // Q5_0
    {7, 0, 2},       // Q5_1
    {8, 0, 0},       // Q8_0
    {10, 80, 82},    // Q2_K
    {11, 108, 108},  // Q3_K
    {12, 0, 2},      // Q4_K
    {13, 0, 2},      // Q5_K
    {14, 208, 208},  // Q6_K
    {16, 0, 0},      // IQ2_XXS
    {17, 0, 0},      // IQ2_XS
    {18, 0, 0},      // IQ3_XXS
    {19, 0, 0},      // IQ1_S
    {20, 0, 0},      // IQ4_NL
    {21, 0, 0},      // IQ3_S
    {22, 0, 0},      // IQ2_S
    {23, 0, 0},      // IQ4_XS
    {34, 52, 52},    // TQ1_0
    {35, 64, 64},    // TQ2_0
    {41, 0, 0},      // Q1_0
    {42, 0, 0},      // Q2_0
};

}  // namespace

std::optional<size_t> find_not_finite(const gguf::TensorType & type, const uint8_t * data, size_t nbytes) {
    switch (type.id) {
        case 0:  // F32
            return find_in_values(data, nbytes, f32_exponent);
        case 1:  // F16
            return find_in_values(data, nbytes, f16_exponent);
        case 15:  // Q8_K
            return find_block(data, nbytes, type.block_bytes, [](const uint8_t * block) {
                return (word_at<uint32_t>(block) & f32_exponent) == f32_exponent;
            });
        case 28:  // F64
            return find_in_values(data, nbytes, f64_exponent);
        case 29:  // IQ1_M
            return find_block(data, nbytes, type.block_bytes,
                              [](const uint8_t * block) { return is_bad_iq1_m(block + 48); });
        case 30:  // BF16
            return find_in_values(data, nbytes, bf16_exponent);
        case 39:  // MXFP4
            return find_block(data, nbytes, type.block_bytes,
                              [](const uint8_t * block) { return block[0] == not_a_number_e8m0; });
        default:
            break;
    }
    for (const Scales & scales : scales_of_f16) {
        if (scales.type_id == type.id) {
            return find_block(data, nbytes, type.block_bytes, [&](const uint8_t * block) {
                return is_bad_f16(block + scales.first) || is_bad_f16(block + scales.second);
            });
        }
    }
    return std::nullopt;  // integers, and scales that are never infinite
}

}  // namespace orin
