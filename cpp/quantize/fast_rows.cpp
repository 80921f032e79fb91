// ggml's quantizers of K-quants, replaced when the module is linked (--wrap in CMakeLists.txt): its callers get ours.
//
// Only on x86: elsewhere compilers fuse the multiplications and additions of ggml's own code as they see fit, and no
// other code could give the same bits.
#if defined(__x86_64__)

#include "fast_blocks.h"
#include "ggml.h"

// They return the bytes that were written.
extern "C" size_t __wrap_quantize_q4_K(const float * source, void * out, int64_t n_rows, int64_t n,
                                       const float * importance) {
    orin::quantize_q4_k(source, out, n_rows, n, importance);
    return static_cast<size_t>(n_rows) * ggml_row_size(GGML_TYPE_Q4_K, n);
}

extern "C" size_t __wrap_quantize_q5_K(const float * source, void * out, int64_t n_rows, int64_t n,
                                       const float * importance) {
    orin::quantize_q5_k(source, out, n_rows, n, importance);
    return static_cast<size_t>(n_rows) * ggml_row_size(GGML_TYPE_Q5_K, n);
}

extern "C" size_t __wrap_quantize_q6_K(const float * source, void * out, int64_t n_rows, int64_t n,
                                       const float * importance) {
    orin::quantize_q6_k(source, out, n_rows, n, importance);
    return static_cast<size_t>(n_rows) * ggml_row_size(GGML_TYPE_Q6_K, n);
}

#endif
