// How values of K and V become floats with AVX2 and F16C, or AVX-512.
#pragma once

#include <immintrin.h>

#include "lanes.h"

namespace orin::attention {

#if defined(__AVX512F__)
// With a mask of all lanes, as gcc 12 warns in its own header without (PR 105593); the instructions have none.
inline Floats load_halves(const char * from) {
    return _mm512_maskz_cvtph_ps(0xffff, read<__m256i>(from));
}
inline Floats fill_half(const char * from) {
    return _mm512_maskz_cvtph_ps(0xffff, _mm256_set1_epi16(read<int16_t>(from)));
}
inline Ints load_signed_bytes(const char * from) {
    return reinterpret_cast<Ints>(_mm512_maskz_cvtepi8_epi32(0xffff, read<__m128i>(from)));
}
inline Ints load_unsigned_bytes(const char * from) {
    return reinterpret_cast<Ints>(_mm512_maskz_cvtepu8_epi32(0xffff, read<__m128i>(from)));
}
inline Floats load_high_halves(const char * from) {
    return reinterpret_cast<Floats>(reinterpret_cast<Ints>(_mm512_maskz_cvtepu16_epi32(0xffff, read<__m256i>(from)))
                                    << 16);
}
#else
inline Floats load_halves(const char * from) {
    return _mm256_cvtph_ps(read<__m128i>(from));
}
inline Floats fill_half(const char * from) {
    return _mm256_cvtph_ps(_mm_set1_epi16(read<int16_t>(from)));
}
inline Ints load_signed_bytes(const char * from) {
    return reinterpret_cast<Ints>(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(read<int64_t>(from))));
}
inline Ints load_unsigned_bytes(const char * from) {
    return reinterpret_cast<Ints>(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(read<int64_t>(from))));
}
inline Floats load_high_halves(const char * from) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(read<__m128i>(from)), 16));
}
#endif

struct F16Row {
    static Values load(const char * row, int i) { return {load_halves(row + 2 * i)}; }
};

struct Bf16Row {
    static Values load(const char * row, int i) { return {load_high_halves(row + 2 * i)}; }
};

// Blocks of 32 values: a scale (f16), then signed bytes.
struct Q8Row {
    static Values load(const char * row, int i) {
        const char * block = row + i / 32 * 34;
        return {fill_half(block) * __builtin_convertvector(load_signed_bytes(block + 2 + i % 32), Floats)};
    }
};

// Blocks of 32 values: a scale (f16), then 16 bytes; the low halves are the first 16 values plus 8, the high halves
// the others.
struct Q4Row {
    static Values load(const char * row, int i) {
        const char * block = row + i / 32 * 18;
        const Ints bytes = load_unsigned_bytes(block + 2 + i % 16);
        const Ints values = ((bytes >> ((i & 16) / 4)) & 15) - 8;
        return {fill_half(block) * __builtin_convertvector(values, Floats)};
    }
};

}  // namespace orin::attention
