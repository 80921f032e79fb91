// Between ggml's RoPE nodes and the tables: reads a node's parameters, writes the table's address into it.
#pragma once

#include <optional>
#include <vector>

#include "../rope/rope_params.h"

struct ggml_tensor;

namespace orin {

class RopeTable;

// The parameters of a RoPE node that a table can serve; nothing for other nodes, for vision RoPE, and where the
// frequency factors are not weights that the host can read now.
std::optional<RopeParams> rope_params(const ggml_tensor & node);

// The same where the frequency factors were read already, or there are none. factors: at least [n_dims / 2], or empty
std::optional<RopeParams> rope_params(const ggml_tensor & node, const std::vector<float> & factors);

// Whether it is a weight that was loaded: a graph input or an intermediate result would change under a table.
bool is_weight(const ggml_tensor & tensor);

void stamp_rope_table(ggml_tensor & node, RopeTable & table);

}  // namespace orin
