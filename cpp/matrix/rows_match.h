// Finds who gives activations in the form that products read.
#pragma once

#include <unordered_map>

#include "graph_readers.h"
#include "matrix_match.h"

namespace orin {

// Rows of F32, one for each token, one behind the other.
bool is_activations(const ggml_tensor & t);

// Adds to a plan, whose sites are known, who makes what they read. served: products of the sites, and their rows.
void match_rows(const MatrixServices & services, const GraphReaders & readers,
                const std::unordered_map<const ggml_tensor *, MatrixRows> & served, MatrixPlan & plan);

}  // namespace orin
