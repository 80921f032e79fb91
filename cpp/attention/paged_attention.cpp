#include "paged_attention.h"

#include "decode.h"
#include "merge.h"
#include "plan.h"
#include "prefill.h"
#include "workspace.h"

namespace orin::attention {

namespace {

void compute(const PagedAttention & a, const Item & item, const Desk & desk, const Sums & sums) {
    if (item.block->n_tokens == 1) {
        decode(a, item, desk, sums);
    } else {
        prefill(a, item, desk, sums);
    }
}

}  // namespace

void run(const PagedAttention & a, Workspace & workspace, int ith, int nth) {
    const Desk desk = workspace.desk(ith);
    const Plan plan = make_plan(a, nth, desk.blocks);
    const Block * block = plan.blocks;
    for (int32_t i = ith; i < plan.n_items; i = workspace.next_item(nth)) {
        const Item item = plan.item(i, block);
        block = item.block;
        if (block->n_pieces == 1) {
            compute(a, item, desk, desk.sums);
            write_output(a, item, desk.sums);
            continue;
        }
        compute(a, item, desk, workspace.piece(item.first_piece() + item.piece));
        if (workspace.finish_piece(item.cut_part(), block->n_pieces)) {
            merge_pieces(a, item, workspace);
        }
    }
    workspace.leave(nth);
}

}  // namespace orin::attention
