// How values of K and V become floats with NEON.
#pragma once

#include <arm_neon.h>

#include "lanes.h"

namespace orin::attention {

// Four bytes from `first` on. A lane with a byte at its top is 2^24 times it, which the conversion takes back: two
// instructions where widening takes three.
template <int first>
inline Floats to_floats(int8x16_t bytes) {
    constexpr int8_t none = -1;  // gives 0
    constexpr int8x16_t places = {none, none, none, first,     none, none, none, first + 1,
                                  none, none, none, first + 2, none, none, none, first + 3};
    return vcvtq_n_f32_s32(vreinterpretq_s32_s8(vqtbl1q_s8(bytes, vreinterpretq_u8_s8(places))), 24);
}

inline Values to_floats(int8x16_t bytes, float scale) {
    return {to_floats<0>(bytes) * scale, to_floats<4>(bytes) * scale, to_floats<8>(bytes) * scale,
            to_floats<12>(bytes) * scale};
}

struct F16Row {
    static constexpr bool quantized = false;

    static Values load(const char * row, int i) {
        const auto low = read<float16x8_t>(row + 2 * i);
        const auto high = read<float16x8_t>(row + 2 * i + 16);
        return {vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
                vcvt_high_f32_f16(high)};
    }
};

struct Bf16Row {
    static constexpr bool quantized = false;

    static Values load(const char * row, int i) {
        const auto low = read<uint16x8_t>(row + 2 * i);
        const auto high = read<uint16x8_t>(row + 2 * i + 16);
        return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(low), 16)),
                vreinterpretq_f32_u32(vshll_high_n_u16(low, 16)),
                vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(high), 16)),
                vreinterpretq_f32_u32(vshll_high_n_u16(high, 16))};
    }
};

// A block of 32 values, each a whole number times the scale.
struct WholeNumbers {
    int8x16_t low;
    int8x16_t high;
    float scale;
};

// Blocks of 32 values: a scale (f16), then signed bytes.
struct Q8Row {
    static constexpr bool quantized = true;

    static WholeNumbers block(const char * row, int i) {
        const char * block = row + i / 32 * 34;
        return {read<int8x16_t>(block + 2), read<int8x16_t>(block + 18), read<__fp16>(block)};
    }
    static Values load(const char * row, int i) {
        const char * block = row + i / 32 * 34;
        return to_floats(read<int8x16_t>(block + 2 + i % 32), read<__fp16>(block));
    }
};

// Blocks of 32 values: a scale (f16), then 16 bytes; the low halves are the first 16 values plus 8, the high halves
// the others.
struct Q4Row {
    static constexpr bool quantized = true;

    static WholeNumbers block(const char * row, int i) {
        const char * block = row + i / 32 * 18;
        const auto bytes = read<uint8x16_t>(block + 2);
        return {minus_8(bytes & 15), minus_8(bytes >> 4), read<__fp16>(block)};
    }
    static Values load(const char * row, int i) {
        const char * block = row + i / 32 * 18;
        const auto bytes = read<uint8x16_t>(block + 2);
        return to_floats(minus_8((bytes >> ((i & 16) / 4)) & 15), read<__fp16>(block));
    }

   private:
    static int8x16_t minus_8(uint8x16_t x) { return vreinterpretq_s8_u8(x) - 8; }
};

}  // namespace orin::attention
