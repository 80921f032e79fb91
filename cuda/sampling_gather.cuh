// Going through a row's blocks, and collecting tokens of them.
#pragma once

#include "sampling_cut.cuh"

namespace orin::cuda {

// Calls use(logit, id) for the tokens of those of n blocks, at most 32, for whose largest logit `may_have` is true. A
// whole warp calls it, and its lanes call `use` together.
template <typename MayHave, typename Use>
__device__ void each_of_blocks(const Row & row, int32_t first_block, int32_t n, const MayHave & may_have,
                               const Use & use) {
    const int32_t lane = thread_index() % 32;
    const ChunkState & chunk = row.chunks[first_block / chunk_blocks];
    unsigned left =
        __ballot_sync(all_lanes, lane < n && may_have(sampling::logit_of(row.block_key(first_block + lane))));
    for (; left != 0; left &= left - 1) {
        const int32_t block = first_block + __ffs(static_cast<int>(left)) - 1;
        for (int32_t first = 0; first < block_size; first += 32) {
            const int32_t place = first + lane;
            use(row.logit(chunk, block, place), block * block_size + place);
        }
    }
}

// The same of the blocks of a chunk, shared among the warps.
template <typename MayHave, typename Use>
__device__ void each_of_chunk(const Row & row, int32_t chunk, const MayHave & may_have, const Use & use) {
    each_of_blocks(row, chunk * chunk_blocks + thread_index() / 32 * warp_blocks, warp_blocks, may_have, use);
}

// The same of all blocks.
template <typename MayHave, typename Use>
__device__ void each_of_row(const Row & row, const MayHave & may_have, const Use & use) {
    for (int32_t chunk = thread_index() / 32; chunk < row.n_chunks; chunk += n_warps) {
        each_of_blocks(row, chunk * chunk_blocks, chunk_blocks, may_have, use);
    }
}

// Appends the token of each lane that has one to the row's items. A whole warp calls it.
__device__ inline void append(const Row & row, bool has_one, Rank rank) {
    const unsigned with = __ballot_sync(all_lanes, has_one);
    if (with == 0) {
        return;
    }
    const unsigned lane = threadIdx.x % 32;
    uint32_t place = 0;
    if (lane == 0) {
        place = atomicAdd(&row.state->n_items, static_cast<uint32_t>(__popc(with)));
    }
    place = __shfl_sync(all_lanes, place, 0) + static_cast<uint32_t>(__popc(with & ((1u << lane) - 1)));
    if (has_one) {
        row.items[place] = rank;
    }
}

// Makes the tokens with the k largest logits the row's items, and some with equal or lower ones, less those of which
// `is_wanted` is false: with a token it wants all likelier ones. The rank of the last of the k; ~0 if they are fewer.
// PRECOND: 1 <= k <= the vocabulary, so that what lies beyond the row, -inf with higher ids, is not among the k.
template <typename IsWanted>
__device__ Rank gather_likeliest(CutMemory & memory, const Row & row, uint32_t k, const IsWanted & is_wanted) {
    const auto one = [](Rank) { return 1u; };
    const int32_t n_blocks = row.n_chunks * chunk_blocks;
    float lowest = -INFINITY;
    if (k <= static_cast<uint32_t>(n_blocks)) {
        // k blocks whose largest logits are as large as the k-th of these have k logits as large.
        const auto block = [&](int32_t i) { return rank_of(row.block_key(i), i); };
        lowest = logit_of(find_cut(memory, n_blocks, k, block, one));
    }
    const auto is_item = [&](float logit) { return logit >= lowest && is_wanted(logit); };
    each_of_row(row, is_item, [&](float logit, int32_t id) { append(row, is_item(logit), rank_of(logit, id)); });
    __syncthreads();
    const uint32_t n_items = row.state->n_items;
    if (n_items < k) {
        return ~Rank{0};  // all that is wanted of the row
    }
    return find_cut(memory, static_cast<int32_t>(n_items), k, [&](int32_t i) { return row.items[i]; }, one);
}

}  // namespace orin::cuda
