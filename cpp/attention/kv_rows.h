// How K and V lie in memory, and how they become floats.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "lanes.h"
#include "paged_attention.h"

namespace orin::attention {

template <typename T>
inline T read(const void * from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

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
#elif defined(__AVX2__)
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
#elif defined(__aarch64__)
inline Floats load_halves(const char * from) {
    return vcvt_f32_f16(read<float16x4_t>(from));
}
inline Ints load_unsigned_bytes(const char * from) {
    const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(read<uint32_t>(from)));
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))));
}
inline Ints load_signed_bytes(const char * from) {
    const int8x8_t bytes = vreinterpret_s8_u32(vdup_n_u32(read<uint32_t>(from)));
    return vmovl_s16(vget_low_s16(vmovl_s8(bytes)));
}
inline Floats fill_half(const char * from) {
    return fill(static_cast<float>(read<__fp16>(from)));
}
inline Floats load_high_halves(const char * from) {
    return vreinterpretq_f32_u32(vshll_n_u16(read<uint16x4_t>(from), 16));
}
#else
#error "paged attention needs AVX2 with F16C, AVX-512, or NEON"
#endif

// A row type reads `lanes` values of a row, from value i on. PRECOND: i % lanes == 0.
struct F16Row {
    static Floats load(const char * row, int i) { return load_halves(row + 2 * i); }
};

struct Bf16Row {
    static Floats load(const char * row, int i) { return load_high_halves(row + 2 * i); }
};

// Blocks of 32 values: a scale (f16), then signed bytes.
struct Q8Row {
    static Floats load(const char * row, int i) {
        const char * block = row + i / 32 * 34;
        return fill_half(block) * __builtin_convertvector(load_signed_bytes(block + 2 + i % 32), Floats);
    }
};

// Blocks of 32 values: a scale (f16), then 16 bytes; the low halves are the first 16 values plus 8, the high halves
// the others.
struct Q4Row {
    static Floats load(const char * row, int i) {
        const char * block = row + i / 32 * 18;
        const Ints bytes = load_unsigned_bytes(block + 2 + i % 16);
        const Ints values = ((bytes >> ((i & 16) / 4)) & 15) - 8;
        return fill_half(block) * __builtin_convertvector(values, Floats);
    }
};

// Calls f with an object of the row type of `type`.
template <typename Function>
inline decltype(auto) with_row_type(KvType type, Function && f) {
    switch (type) {
        case KvType::f16:
            return f(F16Row{});
        case KvType::bf16:
            return f(Bf16Row{});
        case KvType::q8_0:
            return f(Q8Row{});
        default:
            return f(Q4Row{});
    }
}

inline size_t row_bytes(KvType type, int32_t n_values) {
    switch (type) {
        case KvType::f16:
        case KvType::bf16:
            return size_t(n_values) * 2;
        case KvType::q8_0:
            return size_t(n_values) / 32 * 34;
        default:
            return size_t(n_values) / 32 * 18;
    }
}

// Where K or V of one KV head lies for a sequence.
struct HeadRows {
    const char * base;  // of the head in cell 0
    size_t row_bytes;   // from cell to cell
    const int32_t * pages;
    int32_t page_size;
    int page_shift;

    // rows: [n_padded]; first those of n positions from `position` on, then again and again the last one.
    void gather(int32_t position, int n, int n_padded, const char ** rows) const {
        for (int i = 0; i < n;) {
            const int32_t offset = (position + i) & (page_size - 1);
            const int64_t cell = (int64_t(pages[(position + i) >> page_shift]) << page_shift) + offset;
            const char * row = base + cell * int64_t(row_bytes);
            const int n_here = std::min(n - i, page_size - offset);
            for (int j = 0; j < n_here; ++j) {
                rows[i + j] = row + size_t(j) * row_bytes;
            }
            i += n_here;
        }
        std::fill(rows + n, rows + n_padded, rows[n - 1]);
    }
};

// K and V of a KV head for the tokens of a row of the block tables.
struct KvHead {
    HeadRows k;
    HeadRows v;

    KvHead(const PagedAttention & a, int32_t row, int32_t kv_head) {
        const int32_t * pages = a.block_tables + int64_t(row) * a.max_pages;
        const int shift = __builtin_ctz(static_cast<unsigned>(a.page_size));
        const auto * k_base = static_cast<const char *>(a.k) + row_bytes(a.k_type, kv_head * a.head_dim_k);
        const auto * v_base = static_cast<const char *>(a.v) + row_bytes(a.v_type, kv_head * a.head_dim_v);
        k = {k_base, a.k_row_bytes, pages, a.page_size, shift};
        v = {v_base, a.v_row_bytes, pages, a.page_size, shift};
    }
};

}  // namespace orin::attention
