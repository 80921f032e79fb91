// A tile of positions: K and V become floats in shared memory, then scores, weights, and a sum of V.
#pragma once

#include <cuda_runtime.h>

#include "attention_merge.cuh"
#include "attention_run.cuh"
#include "kv_rows.cuh"

namespace orin::cuda {

__device__ __forceinline__ void load_queries(const PagedAttentionParams & p, const AttentionRun & run, float * q) {
    const int dim = p.kv.head_dim_k;
    for (int i = threadIdx.x; i < run.n_rows() * dim; i += attention_threads) {
        const int row = i / dim;
        q[i] = p.q[run.token_of(row) * p.q_token_stride + run.head_of(row) * p.q_head_stride + i % dim];
    }
}

// cells: [n]. The lanes of a warp read the entry of a page at the same time: once.
__device__ __forceinline__ void find_cells(const PagedAttentionParams & p, const AttentionRun & run, int position,
                                           int n, int * cells) {
    const int i = threadIdx.x;
    if (i < n) {
        const int32_t * table = p.kv.block_tables + int64_t(p.rows[run.token]) * p.kv.max_pages;
        cells[i] = kv_cell(p.kv, table, position + i);
    }
}

// Cells become floats in shared memory: half of the threads read K and half V, at the same time. A thread has one unit
// of every so many rows; some threads have none where a head is not a power of two.
class TileReader {
   public:
    // k, v: the head in cell 0; keys, values: of the tile
    __device__ __forceinline__ TileReader(const PagedKv & kv, const char * k, const char * v, float * keys,
                                          float * values) {
        const bool is_k = threadIdx.x < n_threads;
        const int units = (is_k ? kv.head_dim_k : kv.head_dim_v) / kv_unit;
        threads_per_row_ = 2;
        while (threads_per_row_ < units) {
            threads_per_row_ *= 2;
        }
        const int unit = static_cast<int>(threadIdx.x) % threads_per_row_;
        first_row_ = unit < units ? static_cast<int>(threadIdx.x) % n_threads / threads_per_row_ : n_threads;
        type_ = is_k ? kv.k_type : kv.v_type;
        unit_ = place_of_unit(type_, unit);
        from_ = is_k ? k : v;
        row_bytes_ = is_k ? kv.k_row_bytes : kv.v_row_bytes;
        to_ = reinterpret_cast<float4 *>((is_k ? keys : values) + unit * kv_unit);
        stride_ = (is_k ? AttentionMemory::key_stride(kv.head_dim_k) : kv.head_dim_v) / 4;
    }

    // n positions
    __device__ __forceinline__ void read(const int * cells, int n) const {
        with_kv_unit(type_, [&](auto packed) { read_units<decltype(packed)>(cells, n); });
    }

   private:
    static constexpr int n_threads = attention_threads / 2;
    static constexpr int batch = 4;  // loads under way

    template <typename Packed>
    __device__ __forceinline__ void read_units(const int * cells, int n) const {
        const int step = n_threads / threads_per_row_;
        for (int first = first_row_; first < n; first += batch * step) {
            Packed packed[batch];
#pragma unroll
            for (int i = 0; i < batch; i++) {
                if (const int row = first + i * step; row < n) {
                    packed[i].load(from_ + cells[row] * row_bytes_, unit_);
                }
            }
#pragma unroll
            for (int i = 0; i < batch; i++) {
                if (const int row = first + i * step; row < n) {
                    float x[kv_unit];
                    packed[i].unpack(unit_, x);
                    to_[row * stride_] = make_float4(x[0], x[1], x[2], x[3]);
                    to_[row * stride_ + 1] = make_float4(x[4], x[5], x[6], x[7]);
                }
            }
        }
    }

    KvType type_;
    UnitPlace unit_;
    int threads_per_row_;
    int first_row_;
    const char * from_;
    int64_t row_bytes_;
    float4 * to_;
    int stride_;  // of a row, in float4
};

// Each thread multiplies a part of one key with all rows of q. The parts' channels alternate, 16 bytes at a time.
template <int max_rows>
__device__ __forceinline__ void multiply_keys(int tile, int n, int n_rows, int dim, const float * q, const float * keys,
                                              float * products) {
    const int key = static_cast<int>(threadIdx.x) % tile;
    const int part = static_cast<int>(threadIdx.x) / tile;
    if (key >= n) {
        return;
    }
    float sums[max_rows] = {};
    const auto * row = reinterpret_cast<const float4 *>(keys + key * AttentionMemory::key_stride(dim));
    for (int i = part; i < dim / 4; i += attention_threads / tile) {
        const float4 k = row[i];
#pragma unroll
        for (int r = 0; r < max_rows; r++) {
            if (r < n_rows) {
                const float4 x = reinterpret_cast<const float4 *>(q + r * dim)[i];
                sums[r] += x.x * k.x + x.y * k.y + x.z * k.z + x.w * k.w;
            }
        }
    }
#pragma unroll
    for (int r = 0; r < max_rows; r++) {
        if (r < n_rows) {
            products[(part * max_rows + r) * tile + key] = sums[r];
        }
    }
}

// What a warp keeps of the rows that it weighs: row i of it is row warp + i · attention_warps of the block.
template <int max_rows>
struct RowSums {
    static constexpr int n = (max_rows + attention_warps - 1) / attention_warps;
    float max[n];
    float total[n];  // the lane's share of the sum of weights, relative to e^max
};

// Products become weights, lane by lane. n positions from `position`
template <int max_rows>
__device__ __forceinline__ void weigh(const PagedAttentionParams & p, const AttentionRun & run, int tile, int position,
                                      int n, const float * products, RowSums<max_rows> & rows, float * weights,
                                      float * rescale) {
    const int key = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int i = 0; i < RowSums<max_rows>::n; i++) {
        const int r = warp + i * attention_warps;
        if (r >= run.n_rows()) {
            break;
        }
        const int behind = run.position_of(r) + 1 - position;  // the row attends to positions before it
        const int first = p.window == 0 ? 0 : behind - p.window;
        float score = -INFINITY;
        if (key < n && key < behind && key >= first) {
            score = 0.0f;
            for (int part = 0; part < attention_threads / tile; part++) {
                score += products[(part * max_rows + r) * tile + key];
            }
            score *= p.scale;
            if (p.softcap != 0.0f) {
                score = p.softcap * tanhf(score / p.softcap);
            }
        }
        const float max = fmaxf(rows.max[i], largest_of_warp(score));
        const float factor = expf(rows.max[i] - max);
        const float weight = expf(score - max);
        rows.max[i] = max;
        rows.total[i] = rows.total[i] * factor + weight;
        if (key < n) {
            weights[key * max_rows + r] = weight;
        }
        if (key == 0) {
            rescale[r] = factor;
        }
    }
}

// The thread's share of a sum of V: four neighbouring channels of all rows, of every n_parts-th position.
template <int max_rows>
struct ValueSums {
    int n_parts;
    int part;  // n_parts for threads that have none
    int channel;
    float4 sums[max_rows];

    __device__ __forceinline__ explicit ValueSums(int dim)
        : n_parts(attention_threads / (dim / 4)),
          part(static_cast<int>(threadIdx.x) / (dim / 4)),
          channel(static_cast<int>(threadIdx.x) % (dim / 4) * 4),
          sums() {}

    __device__ __forceinline__ void add(int n, int n_rows, int dim, const float * values, const float * weights,
                                        const float * rescale) {
        if (part >= n_parts) {
            return;
        }
#pragma unroll
        for (int r = 0; r < max_rows; r++) {
            if (r < n_rows) {
                sums[r].x *= rescale[r];
                sums[r].y *= rescale[r];
                sums[r].z *= rescale[r];
                sums[r].w *= rescale[r];
            }
        }
        for (int i = part; i < n; i += n_parts) {
            const float4 v = *reinterpret_cast<const float4 *>(values + i * dim + channel);
#pragma unroll
            for (int r = 0; r < max_rows; r++) {
                if (r < n_rows) {
                    const float weight = weights[i * max_rows + r];
                    sums[r].x += weight * v.x;
                    sums[r].y += weight * v.y;
                    sums[r].z += weight * v.z;
                    sums[r].w += weight * v.w;
                }
            }
        }
    }

    // to: [n_parts, max_rows, dim]
    __device__ __forceinline__ void store(int n_rows, int dim, float * to) const {
        if (part >= n_parts) {
            return;
        }
#pragma unroll
        for (int r = 0; r < max_rows; r++) {
            if (r < n_rows) {
                *reinterpret_cast<float4 *>(to + (part * max_rows + r) * dim + channel) = sums[r];
            }
        }
    }
};

}  // namespace orin::cuda
