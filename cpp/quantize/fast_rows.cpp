// ggml's quantizers of some types, replaced when the module is linked (--wrap in CMakeLists.txt): its callers get ours.
//
// On x86 they give the same bits. On Arm, compilers fuse multiplications and additions of ggml's own code as they see
// fit; ours gives the bits of x86 there, too.
#include "fast_blocks.h"
#include "ggml.h"

// They return the bytes that were written.
#define ORIN_WRAP(stock, ours, type)                                                              \
    extern "C" size_t __wrap_##stock(const float * source, void * out, int64_t n_rows, int64_t n, \
                                     const float * importance) {                                  \
        orin::ours(source, out, n_rows, n, importance);                                           \
        return static_cast<size_t>(n_rows) * ggml_row_size(type, n);                              \
    }

ORIN_WRAP(quantize_q4_K, quantize_q4_k, GGML_TYPE_Q4_K)
ORIN_WRAP(quantize_q5_K, quantize_q5_k, GGML_TYPE_Q5_K)
ORIN_WRAP(quantize_q6_K, quantize_q6_k, GGML_TYPE_Q6_K)
ORIN_WRAP(quantize_iq4_nl, quantize_iq4_nl, GGML_TYPE_IQ4_NL)
ORIN_WRAP(quantize_iq4_xs, quantize_iq4_xs, GGML_TYPE_IQ4_XS)
