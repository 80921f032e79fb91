// Third launch: finds which tokens the filters keep, and draws one.
#pragma once

#include <device/launch.cuh>

#include "sampling_gather.cuh"

namespace orin::cuda {

__device__ inline int32_t draw_likeliest(BlockMemory & memory, const Row & row, uint32_t top_key) {
    Range blocks{~Rank{0}, 0, 0};
    for (int32_t i = thread_index(); i < row.n_chunks * chunk_blocks; i += block_threads) {
        if (row.block_key(i) == top_key) {
            blocks.lowest = min(blocks.lowest, static_cast<Rank>(i));
        }
    }
    const auto block = static_cast<int32_t>(join_ranges(memory, blocks).lowest);
    Range tokens{~Rank{0}, 0, 0};
    if (thread_index() < block_size) {
        const float logit = row.logit(row.chunks[block / chunk_blocks], block, thread_index());
        tokens.lowest = rank_of(logit, block * block_size + thread_index());
    }
    return id_of(join_ranges(memory, tokens).lowest);
}

// The last token that top-k keeps; its items are then all tokens that it may keep and that weigh anything.
__device__ inline Rank cut_by_count(CutMemory & memory, const Row & row, const Weights & weights) {
    const float hottest = max(weights.temperature, weights.filter_temperature);
    return gather_likeliest(memory, row, static_cast<uint32_t>(row.lane->params.top_k),
                            [&](float logit) { return sampling::weight_of(logit, weights.top, hottest) > 0; });
}

// The last of the row's items that top-p keeps, where `needed` is what they have to sum up to.
__device__ inline Rank cut_by_sum(CutMemory & memory, const Row & row, const Weights & weights, Sum needed) {
    return find_cut(
        memory, static_cast<int32_t>(row.state->n_items), needed, [&](int32_t i) { return row.items[i]; },
        [&](Rank rank) { return weights.of_filter(logit_of(rank)); });
}

__device__ __forceinline__ Sum needed_of(const Row & row, Sum total) {
    return max(sampling::share(row.lane->params.top_p, total), uint64_t{1});
}

// Adds the draw weights of the items up to the cut to their chunks' sums.
__device__ inline void add_items(const Row & row, const Weights & weights, Rank cut) {
    const auto n_items = static_cast<int32_t>(row.state->n_items);
    for (int32_t i = thread_index(); i < n_items; i += block_threads) {
        const Rank rank = row.items[i];
        const uint32_t weight = rank <= cut ? weights.of_draw(logit_of(rank)) : 0;
        if (weight > 0) {
            atomicAdd(&row.chunks[id_of(rank) / chunk_size].sum, Sum{weight});
        }
    }
    __syncthreads();
}

// The token that the row's place draws of those up to the cut. PRECOND: the chunks have their sums.
__device__ inline int32_t draw(BlockMemory & memory, const Row & row, const Weights & weights, Rank cut) {
    const auto sum = [&](int32_t i) { return row.chunks[i].sum; };
    const uint64_t words = sampling::random_words(row.lane->params.seed, row.lane->choice, row.lane->position);
    const Sum target = sampling::draw_target(words, sum_of(memory, row.n_chunks, sum));
    const Picked chunk = pick(memory, row.n_chunks, target, sum);
    const auto weight = [&](int32_t i) -> Sum {
        const int32_t id = chunk.index * chunk_size + i;
        const float logit = row.logit(row.chunks[chunk.index], id / block_size, id % block_size);
        return rank_of(logit, id) <= cut ? weights.of_draw(logit) : 0;
    };
    return chunk.index * chunk_size + pick(memory, chunk_size, target - chunk.before, weight).index;
}

// Of a row that top-k limits: one thread block does it alone.
__device__ inline int32_t draw_of_few(CutMemory & memory, const Row & row, const Weights & weights) {
    Rank cut = cut_by_count(memory, row, weights);
    if (row.limits_sum()) {
        const Sum total = sum_of(memory.block, static_cast<int32_t>(row.state->n_items), [&](int32_t i) -> Sum {
            return row.items[i] <= cut ? weights.of_filter(logit_of(row.items[i])) : 0;
        });
        cut = cut_by_sum(memory, row, weights, needed_of(row, total));
    }
    add_items(row, weights, cut);
    return draw(memory.block, row, weights, cut);
}

// The bucket of the histogram in which top-p's sum is reached, and what is left to reach within.
struct Boundary {
    int32_t bucket;
    Sum needed;
};

__device__ inline Boundary find_boundary(BlockMemory & memory, const Row & row) {
    const auto sum = [&](int32_t i) { return row.state->histogram[i]; };
    const Sum needed = needed_of(row, sum_of(memory, n_histogram, sum));
    const Picked bucket = pick(memory, n_histogram, needed - 1, sum);
    return {bucket.index, needed - bucket.before};
}

// Sums up the chunk's draw weights above the boundary; tokens at the boundary become items.
__device__ inline void sum_chunk(BlockMemory & memory, const Row & row, const Weights & weights, int32_t chunk,
                                 int32_t boundary) {
    Sum sum = 0;
    const float hottest = max(weights.temperature, weights.filter_temperature);
    each_of_chunk(
        row, chunk,
        [&](float top) {
            return sampling::weight_of(top, weights.top, hottest) > 0 &&
                   Weights::bucket(weights.argument(top)) <= boundary;
        },
        [&](float logit, int32_t id) {
            const int32_t bucket = Weights::bucket(weights.argument(logit));
            sum += bucket < boundary ? weights.of_draw(logit) : 0;
            append(row, bucket == boundary, rank_of(logit, id));
        });
    const Sum total = prefix_sum(memory, sum).total;
    if (thread_index() == 0) {
        row.chunks[chunk].sum = total;
    }
}

__global__ void __launch_bounds__(block_threads, 3) sampling_draw_kernel(SamplingParams p) {
    auto & memory = *shared_memory<CutMemory>();
    const Row row = row_of(p, static_cast<int32_t>(blockIdx.y));
    const auto chunk = static_cast<int32_t>(blockIdx.x);
    const bool takes_one_block = row.is_greedy() || row.limits_count();
    if (!row.is_drawn() || (takes_one_block && chunk != 0)) {
        return;
    }
    const auto finish = [&](int32_t token) {
        if (thread_index() == 0) {
            p.tokens[blockIdx.y] = token;
        }
    };
    const uint32_t top_key = row.top_key();
    if (top_key == 0 || top_key >= sampling::first_invalid_key) {
        finish(top_key == 0 ? sampling::nothing_left : sampling::bad_logits);
        return;
    }
    const Weights weights(row, top_key);
    if (takes_one_block) {
        finish(row.is_greedy() ? draw_likeliest(memory.block, row, top_key) : draw_of_few(memory, row, weights));
        return;
    }
    Boundary boundary{n_histogram, 0};
    if (row.limits_sum()) {
        boundary = find_boundary(memory.block, row);
    }
    sum_chunk(memory.block, row, weights, chunk, boundary.bucket);
    if (!arrives_last(memory.block, row.state->n_arrived)) {
        return;
    }
    Rank cut = ~Rank{0};
    if (row.limits_sum()) {
        cut = cut_by_sum(memory, row, weights, boundary.needed);
        add_items(row, weights, cut);
    }
    finish(draw(memory.block, row, weights, cut));
}

}  // namespace orin::cuda
