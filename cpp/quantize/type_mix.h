// The mix of types of a quantized file, for a model that need not be there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orin {

// What the choice of types looks at in a dense model.
struct ModelOutline {
    std::string architecture;
    uint32_t n_layer;
    uint32_t n_embd;
    uint32_t n_ff;
    uint32_t n_head;
    uint32_t n_head_kv;
    uint32_t head_dim;
};

struct Matrix {
    std::string name;
    int64_t n_inputs;
    int64_t n_outputs;
};

// The types, as in a model file's tensor table, that llama.cpp's quantizer gives these matrices, all that the model
// has, in this order, in a file with this general.file_type. Throws EngineError where there is none.
std::vector<std::string> matrix_types(const ModelOutline & model, int32_t file_type,
                                      const std::vector<Matrix> & matrices);

}  // namespace orin
