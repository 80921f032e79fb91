// Turns sums into outputs.
#pragma once

#include "plan.h"
#include "workspace.h"

namespace orin::attention {

// The state before the first position: nothing, or, in the piece that begins the context, the sinks.
// n_rows: those of the item, or more: the others are set too.
void start_sums(const PagedAttention & attention, const Item & item, int n_rows, const Sums & sums);

// Writes the outputs of an item that has the whole context.
void write_output(const PagedAttention & attention, const Item & item, const Sums & sums);

// Writes the outputs of the item's part from the sums of all its pieces, in their order.
void merge_pieces(const PagedAttention & attention, const Item & item, const Workspace & workspace);

}  // namespace orin::attention
