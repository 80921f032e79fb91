// CUDA launchers for GGML_OP_CUSTOM nodes. On the CPU such a node runs its own function; on CUDA the patched backend
// looks up, by that function, how to run it. The list only grows and is the same for every engine.
#pragma once

#include "ggml.h"

namespace orin {

struct CustomOp {
    ggml_custom_op_t fun;                                                  // the CPU implementation, and the key
    bool (*supports)(const ggml_tensor * op);                              // whether launch takes its shapes and types
    int (*launch)(ggml_tensor * op, void * userdata, void * cuda_stream);  // returns a cudaError_t
};

// Throws std::logic_error where `fun` has another launcher already. Thread-safe.
void register_custom_op(const CustomOp & op);

}  // namespace orin
