// Attention of one query token: every row of K and V is read once for all heads that share it.
#pragma once

#include "plan.h"
#include "workspace.h"

namespace orin::attention {

// PRECOND: the item's block has one token. Fills sums for the group's heads.
void decode(const PagedAttention & attention, const Item & item, const Desk & desk, const Sums & sums);

}  // namespace orin::attention
