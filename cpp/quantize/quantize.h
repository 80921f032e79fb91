// A model file written anew with fewer bits a weight, by llama.cpp's own quantizer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace orin {

// How much each input of a matrix matters, from an importance matrix.
struct Importance {
    std::string tensor;
    const float * weights;  // [n_matrices, n_inputs], finite and not negative; outlives the call
    size_t n_weights;
};

// Types are written as in a model file's tensor table: Q4_K.
struct QuantizeParams {
    int32_t file_type = 0;   // general.file_type
    bool only_copy = false;  // every tensor keeps its type, and the file its file type
    bool pure = false;       // one type for all matrices
    bool allow_requantize = false;
    int32_t threads = 1;
    size_t buffer_bytes = 0;                                         // of the rows in work at a time
    std::optional<std::string> output_type;                          // of output.weight
    std::optional<std::string> embedding_type;                       // of token_embd.weight
    std::vector<std::pair<std::string, std::string>> type_patterns;  // regular expression, type; the first that matches
    std::vector<Importance> importance;
    std::vector<std::pair<std::string, std::string>> text_metadata;  // set in the new file; cut to 127 bytes
    std::vector<std::pair<std::string, int64_t>> number_metadata;    // set behind them, as u32
};

// What becomes of a tensor.
struct QuantizedTensor {
    std::string name;
    std::string type;
    std::string new_type;
    std::string wanted_type;  // the type that its rows do not divide by the blocks of, or ""
    uint64_t n_inputs;        // of a row
    uint64_t n_matrices;
    uint64_t n_weights;
    uint64_t bytes;
    uint64_t new_bytes;
};

// Called with the bytes of the source that are done; false stops the work with Interrupted.
using QuantizeProgress = std::function<bool(uint64_t bytes_done)>;

// What `quantize` would do, in the order in which it writes.
//
// Throws std::invalid_argument for a type or pattern that cannot be, LoadError when llama.cpp refuses the file.
std::vector<QuantizedTensor> plan_quantization(const std::string & source, const QuantizeParams & params);

// Reads the model at `source`, the first of its files where it is split, and writes `out`, one file.
//
// Throws std::invalid_argument and LoadError as above, Interrupted, and EngineError when `out` cannot be written.
// PRECOND: the preflight accepts the file; the plan has importance for every tensor whose type needs it; no tensor is
// named by output_type or embedding_type whose rows do not divide by that type's blocks. llama.cpp would end the
// process, from threads of its own, where no guard helps.
std::vector<QuantizedTensor> quantize(const std::string & source, const std::string & out,
                                      const QuantizeParams & params, const QuantizeProgress & progress);

// Of a type that weights can have; throws std::invalid_argument for another.
bool needs_importance(const std::string & type);    // ggml cannot quantize to it without
uint32_t block_elements(const std::string & type);  // that a row must divide by

}  // namespace orin
