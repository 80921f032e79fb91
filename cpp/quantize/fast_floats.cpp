// Two functions of ggml that the quantizer spends its time in beside the blocks, replaced when the module is linked
// (--wrap in CMakeLists.txt): ggml's own are compiled for the oldest processors. The answers are the same.
#include <cstdint>

#include "../gguf/tensor_types.h"
#include "../loader/not_finite.h"
#include "ggml.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace {

bool is_known_finite(ggml_type type, const void * data, size_t n_bytes) {
    if (type != GGML_TYPE_F32 && type != GGML_TYPE_F16 && type != GGML_TYPE_BF16) {
        return false;
    }
    const orin::gguf::TensorType & known = *orin::gguf::find_tensor_type(static_cast<uint32_t>(type));
    return n_bytes % known.block_bytes == 0 &&
           !orin::find_not_finite(known, static_cast<const uint8_t *>(data), n_bytes);
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
