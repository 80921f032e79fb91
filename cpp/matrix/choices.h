// What is fastest on one device: which kernel computes products of how many tokens, and how its launches are cut.
// Defaults follow from the device; what was measured on it replaces them, by name (EngineConfig.kernels).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../../cuda/weight_type.h"

namespace orin {

struct MatrixChoices {
    // Most tokens of a launch of matrix_vector, by the type of its weights; 0: none.
    std::array<int32_t, cuda::n_weight_types> vector_tokens{};
    // Least tokens of a launch of matrix_product, where matrix_vector does not take it, and most; 0: none, and any
    // number. What neither takes is llama.cpp's.
    int32_t product_tokens = 1;
    int32_t product_most = 0;
    // Least tokens from which a product that stays llama.cpp's is made by cuBLAS, of weights decoded to f16, where
    // llama.cpp would take its own kernel for quantized ones (cublas_marks.h); 0: never.
    int32_t cublas_tokens = 0;

    // How launches are cut; 0: as the kernel would (matrix_vector_cut, matrix_product_splits).
    int32_t vector_rows = 0;     // of weights that a warp of matrix_vector has: 1, 2 or 4
    int32_t vector_splits = 0;   // parts that its rows are cut into: 1, 2, 4 or 8
    int32_t product_splits = 0;  // parts that rows of matrix_product are cut into
    int32_t prefetch_bytes = 0;  // of the next weights, that launches before them ask the L2 cache for; 0: none

    // Least tokens of a step with prompt tokens whose attention gathers what they see, instead of reading pages; 0:
    // none.
    int32_t gather_tokens = 1;
};

// compute_capability: 87 for 8.7; n_multiprocessors: that this process may use.
MatrixChoices default_choices(int32_t compute_capability, int32_t n_multiprocessors);

enum class MatrixForm { vector, product, stock };

// What computes a launch of n_tokens whose weights have these types: the kernels it may be are asked besides whether
// they can (can_matrix_vector, can_matrix_product).
MatrixForm matrix_form(const MatrixChoices & choices, int32_t n_tokens, const std::vector<cuda::WeightType> & types);

// A choice as it is set and shown.
struct ChoiceRange {
    std::string name;
    int32_t least;
    int32_t most;
    std::vector<int32_t> values;  // where only some between these are meant
};

// All names. `vector_tokens` is of all types, `vector_tokens_q4_K` of one.
const std::vector<ChoiceRange> & choice_ranges();

// Choices by name in place of some of `choices`; of all types before those of one. Throws std::invalid_argument for a
// name or value that is not in choice_ranges().
MatrixChoices with_choices(MatrixChoices choices, const std::map<std::string, int32_t> & chosen);

// What choices are, by all names but `vector_tokens`.
std::map<std::string, int32_t> to_map(const MatrixChoices & choices);

}  // namespace orin
