// Which part of a step's attention is a block's.
#pragma once

#include <cuda_runtime.h>

#include "attention_shape.cuh"

namespace orin::cuda {

// Tokens of a sequence at consecutive positions, with the query heads that a block has: row t · n_heads + h is head h
// of token t.
struct AttentionRun {
    int token;  // the first
    int n_tokens;
    int position;  // of the first token
    int head;      // the first
    int n_heads;
    int kv_head;

    __device__ int n_rows() const { return n_tokens * n_heads; }
    __device__ int token_of(int row) const { return token + row / n_heads; }
    __device__ int head_of(int row) const { return head + row % n_heads; }
    __device__ int position_of(int row) const { return position + row / n_heads; }
};

// The run that begins with a token and ends before `behind`. A token without a sequence is a run of its own.
__device__ inline AttentionRun attention_run(const PagedAttentionParams & p, const AttentionShape & shape, int token,
                                             int behind) {
    AttentionRun run{};
    const int group = p.n_head / p.kv.n_head_kv;
    const int first = static_cast<int>(blockIdx.y) % shape.n_head_blocks * shape.heads_per_block;  // of the group's
    run.kv_head = static_cast<int>(blockIdx.y) / shape.n_head_blocks;
    run.head = run.kv_head * group + first;
    run.n_heads = min(shape.heads_per_block, group - first);
    run.token = token;
    run.position = p.positions[token];
    run.n_tokens = 1;
    while (run.position >= 0 && token + run.n_tokens < behind && p.rows[token + run.n_tokens] == p.rows[token] &&
           p.positions[token + run.n_tokens] == run.position + run.n_tokens) {
        run.n_tokens++;
    }
    return run;
}

// The positions that a block reads for a run: pieces of whole tiles, but for the last one.
struct AttentionPiece {
    int begin;
    int end;       // begin for blocks that have nothing to do
    int n_pieces;  // of the run
};

__device__ inline AttentionPiece attention_piece(const PagedAttentionParams & p, const AttentionShape & shape,
                                                 const AttentionRun & run) {
    const int first = p.window == 0 ? 0 : max(0, run.position - p.window + 1);
    const int behind = run.position + run.n_tokens;
    const int length = divide_up(divide_up(behind - first, p.n_splits), shape.tile) * shape.tile;
    const int n_pieces = divide_up(behind - first, length);
    if (static_cast<int>(blockIdx.x) >= n_pieces) {
        return {behind, behind, n_pieces};
    }
    const int begin = first + static_cast<int>(blockIdx.x) * length;
    return {begin, min(begin + length, behind), n_pieces};
}

}  // namespace orin::cuda
