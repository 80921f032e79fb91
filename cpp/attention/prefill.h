// Attention of a block of tokens at consecutive positions: two matrix products a tile, with K and V made floats once.
#pragma once

#include "plan.h"
#include "workspace.h"

namespace orin::attention {

// Fills sums for the block's rows: the group's heads of the first token, then those of the next, and so on.
void prefill(const PagedAttention & attention, const Item & item, const Desk & desk, const Sums & sums);

}  // namespace orin::attention
