// What patched llama.cpp calls while it quantizes.
#include "../hooks/include/orin_hooks.h"

void orin_quantize_fallback(const ggml_tensor *, int) {}

void orin_quantize_tensor(const ggml_tensor *, int) {}

void orin_quantize_rows(int64_t) {}
