// The K-quants that most files are made of, several blocks at a time: the bytes are those of ggml's own functions,
// which take one weight after the other.
#pragma once

#include <cstdint>

namespace orin {

// source: [n_rows, n]; importance: [n], or null; out: rows of whole blocks.
// PRECOND: n % 256 == 0, of iq4_nl n % 32 == 0
void quantize_q4_k(const float * source, void * out, int64_t n_rows, int64_t n, const float * importance);
void quantize_q5_k(const float * source, void * out, int64_t n_rows, int64_t n, const float * importance);
void quantize_q6_k(const float * source, void * out, int64_t n_rows, int64_t n, const float * importance);
void quantize_iq4_nl(const float * source, void * out, int64_t n_rows, int64_t n, const float * importance);
void quantize_iq4_xs(const float * source, void * out, int64_t n_rows, int64_t n, const float * importance);

}  // namespace orin
