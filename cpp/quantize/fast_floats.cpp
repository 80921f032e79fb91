// Two functions of ggml that the quantizer spends its time in beside the blocks, replaced when the module is linked
// (--wrap in CMakeLists.txt): ggml's own are compiled for the oldest processors. The answers are the same.
#include <cstdint>

#include "ggml.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace {

// Whether all exponents are below the one of infinities and NaNs. Without an early end, so that it is vectorized.
template <typename Word>
bool is_finite(const void * data, size_t n_words, Word exponent) {
    const auto * words = static_cast<const Word *>(data);
    Word found = 0;
    for (size_t i = 0; i < n_words; ++i) {
        found |= static_cast<Word>((words[i] & exponent) == exponent);
    }
    return found == 0;
}

bool is_known_finite(ggml_type type, const void * data, size_t n_bytes) {
    switch (type) {
        case GGML_TYPE_F32:
            return n_bytes % 4 == 0 && is_finite<uint32_t>(data, n_bytes / 4, 0x7f800000u);
        case GGML_TYPE_F16:
            return n_bytes % 2 == 0 && is_finite<uint16_t>(data, n_bytes / 2, uint16_t{0x7c00});
        case GGML_TYPE_BF16:
            return n_bytes % 2 == 0 && is_finite<uint16_t>(data, n_bytes / 2, uint16_t{0x7f80});
        default:
            return false;
    }
}

}  // namespace

extern "C" {

bool __real_ggml_validate_row_data(ggml_type type, const void * data, size_t n_bytes);
void __real_ggml_fp16_to_fp32_row(const ggml_fp16_t * from, float * to, int64_t n);

// What is not known to be sound ggml looks at itself: it says what it finds.
bool __wrap_ggml_validate_row_data(ggml_type type, const void * data, size_t n_bytes) {
    return is_known_finite(type, data, n_bytes) || __real_ggml_validate_row_data(type, data, n_bytes);
}

void __wrap_ggml_fp16_to_fp32_row(const ggml_fp16_t * from, float * to, int64_t n) {
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8) {
        const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i));
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
    }
#endif
    __real_ggml_fp16_to_fp32_row(from + i, to + i, n - i);
}
}
