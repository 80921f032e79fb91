// Plans for matrices as words.
#pragma once

#include <string>
#include <vector>

#include "matrix_match.h"

namespace orin {

// The nodes that are ours, in their order, by the names of weights: "int8 rows 0.attn_norm", "0.attn_q, 0.attn_k,
// 0.attn_v", "swiglu of 0.ffn_gate, 0.ffn_up as int8", "0.ffn_down + sum".
std::vector<std::string> words_of(const MatrixPlan & plan);

}  // namespace orin
