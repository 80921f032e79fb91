#include <algorithm>
#include <cmath>
#include <device/intrinsics.cuh>
#include <device/launch.cuh>

#include "kv_write.cuh"
#include "l2_prefetch.cuh"
#include "rope_store.h"

namespace orin::cuda {

namespace {

constexpr int warps = 4;  // a warp has a head of a token

// What the launcher works out.
struct Layout {
    int n_heads;       // of Q, K and V together
    int head_dim;      // the larger one
    int warp_floats;   // of shared memory
    float k_hadamard;  // what makes the matrices orthonormal
    float v_hadamard;
    int64_t k_head_bytes;
    int64_t v_head_bytes;
};

// What a warp works on, in shared memory. All that it reads is under way at once; only where the row of the table lies
// has to be known before it can be asked for.
struct Head {
    float2 * angles;  // [n_dims / 2]
    float * x;        // [head_dim]
    float * norm;     // [head_dim]

    __device__ Head(const RopeStoreParams & p, const Layout & layout) {
        float * memory = shared_memory<float>() + int(threadIdx.x / 32) * layout.warp_floats;
        angles = reinterpret_cast<float2 *>(memory);
        x = memory + p.n_dims;
        norm = x + layout.head_dim;
    }

    __device__ void fetch(const HeadRows & rows, int64_t token, int64_t head, int n, int lane) {
        const float * row = rows.values + token * rows.token_stride + head * rows.head_stride;
        for (int i = lane; i < n; i += 32) {
            copy_async<4>(x + i, row + i);
            if (rows.norm != nullptr) {
                copy_async<4>(norm + i, rows.norm + i);
            }
        }
    }
    __device__ void fetch_angles(const RopeStoreParams & p, int32_t position, int lane) {
        const bool is_known = position >= 0 && position < p.n_positions;
        const int n_pairs = p.n_dims / 2;
        if (!is_known && lane == 0 && p.n_outside != nullptr) {
            atomicAdd(p.n_outside, 1u);
        }
        for (int pair = lane; pair < n_pairs; pair += 32) {
            if (is_known) {
                copy_async<8>(angles + pair, p.table + int64_t(position) * n_pairs + pair);
            } else {
                angles[pair] = make_float2(__int_as_float(-1), __int_as_float(-1));
            }
        }
    }
    __device__ void wait() {
        copy_async_commit();
        copy_async_wait<0>();
        __syncwarp();
    }
};

__device__ void normalise(const Head & h, const HeadRows & rows, int n, int lane) {
    if (rows.norm == nullptr) {
        return;
    }
    float squares = 0.0f;
    for (int i = lane; i < n; i += 32) {
        squares += h.x[i] * h.x[i];
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        squares += __shfl_xor_sync(whole_warp, squares, distance);
    }
    const float scale = rsqrtf(squares / float(n) + rows.eps);
    for (int i = lane; i < n; i += 32) {
        h.x[i] = scale * h.x[i] * h.norm[i];
    }
    __syncwarp();
}

__device__ void turn(const Head & h, const RopeStoreParams & p, int lane) {
    const int n_pairs = p.n_dims / 2;
    for (int pair = lane; pair < n_pairs; pair += 32) {
        const int first = p.pairs == RopePairs::neighbours ? 2 * pair : pair;
        const int second = p.pairs == RopePairs::neighbours ? first + 1 : pair + n_pairs;
        const float2 angle = h.angles[pair];
        const float a = h.x[first];
        const float b = h.x[second];
        h.x[first] = a * angle.x - b * angle.y;
        h.x[second] = a * angle.y + b * angle.x;
    }
    __syncwarp();
}

__device__ void multiply(float * x, int n, float factor, int lane) {
    for (int i = lane; i < n; i += 32) {
        x[i] *= factor;
    }
    __syncwarp();
}

// Butterflies of growing distance within each group.
__device__ void rotate_groups(float * x, int n, int group, float scale, int lane) {
    for (int distance = 1; distance < group; distance *= 2) {
        for (int i = lane; i < n / 2; i += 32) {
            const int first = i / distance * 2 * distance + i % distance;
            const float a = x[first];
            const float b = x[first + distance];
            x[first] = a + b;
            x[first + distance] = a - b;
        }
        __syncwarp();
    }
    multiply(x, n, scale, lane);
}

__global__ void __launch_bounds__(warps * 32) rope_store_kernel(RopeStoreParams p, Layout layout) {
    const int64_t n_rows = int64_t(p.n_tokens) * layout.n_heads;
    const int64_t n_blocks = (n_rows + warps - 1) / warps;
    if (blockIdx.x >= n_blocks) {
        return prefetch_part(p.prefetch, blockIdx.x - n_blocks);
    }
    const int lane = int(threadIdx.x % 32);
    const int64_t row = int64_t(blockIdx.x) * warps + threadIdx.x / 32;
    if (row >= n_rows) {
        return;
    }
    const int64_t token = row / layout.n_heads;
    const int head = int(row % layout.n_heads);
    const bool is_q = head < p.n_head;
    const bool is_k = !is_q && head < p.n_head + p.n_head_kv;
    const int64_t cell = is_q ? 0 : p.cells[token];
    Head h(p, layout);
    if (is_q || is_k) {
        const HeadRows & rows = is_q ? p.q : p.k;
        const int kv_head = head - p.n_head;
        const int32_t position = p.positions[token];
        h.fetch(rows, token, is_q ? head : kv_head, p.head_dim_k, lane);
        h.fetch_angles(p, position, lane);
        h.wait();
        normalise(h, rows, p.head_dim_k, lane);
        turn(h, p, lane);
        if (is_q && p.q_scale != 1.0f) {
            multiply(h.x, p.head_dim_k, p.q_scale, lane);
        }
        if (p.k_hadamard > 0) {
            rotate_groups(h.x, p.head_dim_k, p.k_hadamard, layout.k_hadamard, lane);
        }
        if (is_q) {
            float * out = p.q_out + (token * p.n_head + head) * p.head_dim_k;
            for (int i = lane; i < p.head_dim_k; i += 32) {
                out[i] = h.x[i];
            }
        } else {
            auto * memory = static_cast<uint8_t *>(p.k_cells) + cell * p.k_row_bytes;
            write_kv(p.k_type, memory + kv_head * layout.k_head_bytes, h.x, p.head_dim_k, lane);
        }
    } else {
        const int kv_head = head - p.n_head - p.n_head_kv;
        h.fetch(p.v, token, kv_head, p.head_dim_v, lane);
        h.wait();
        normalise(h, p.v, p.head_dim_v, lane);
        if (p.v_hadamard > 0) {
            rotate_groups(h.x, p.head_dim_v, p.v_hadamard, layout.v_hadamard, lane);
        }
        auto * memory = static_cast<uint8_t *>(p.v_cells) + cell * p.v_row_bytes;
        write_kv(p.v_type, memory + kv_head * layout.v_head_bytes, h.x, p.head_dim_v, lane);
    }
}

float orthonormal(int32_t hadamard) {
    return hadamard > 0 ? 1.0f / std::sqrt(float(hadamard)) : 1.0f;
}

bool is_head(int32_t head_dim, KvType type, int32_t hadamard) {
    const bool is_power = hadamard == 0 || (hadamard > 1 && (hadamard & (hadamard - 1)) == 0);
    return head_dim >= 1 && head_dim <= kv_max_head_dim && is_power && (hadamard == 0 || head_dim % hadamard == 0) &&
           (!is_quantized(type) || head_dim % kv_block_values == 0);
}

}  // namespace

bool can_rope_store(const RopeStoreParams & p) {
    return p.n_tokens >= 0 && p.n_head >= 0 && p.n_head_kv >= 0 && (p.k.values == nullptr) == (p.v.values == nullptr) &&
           is_head(p.head_dim_k, p.k_type, p.k_hadamard) && is_head(p.head_dim_v, p.v_type, p.v_hadamard) &&
           p.n_dims >= 0 && p.n_dims % 2 == 0 && p.n_dims <= p.head_dim_k && is_prefetch(p.prefetch);
}

cudaError_t rope_store(const RopeStoreParams & params, cudaStream_t stream) {
    if (!can_rope_store(params)) {
        return cudaErrorInvalidValue;
    }
    const int n_heads = params.n_head + (params.k.values == nullptr ? 0 : 2 * params.n_head_kv);
    const int64_t blocks = (int64_t(params.n_tokens) * n_heads + warps - 1) / warps;
    if (blocks == 0) {
        return cudaSuccess;
    }
    const int head_dim = std::max(params.head_dim_k, params.head_dim_v);
    const Layout layout = {n_heads,
                           head_dim,
                           params.n_dims + 2 * head_dim,
                           orthonormal(params.k_hadamard),
                           orthonormal(params.v_hadamard),
                           int64_t(kv_row_bytes(params.k_type, params.head_dim_k)),
                           int64_t(kv_row_bytes(params.v_type, params.head_dim_v))};
    const int64_t more_blocks = prefetch_blocks(params.prefetch, warps * 32);
    ORIN_LAUNCH(rope_store_kernel, unsigned(blocks + more_blocks), warps * 32,
                size_t(warps) * layout.warp_floats * sizeof(float), stream, params, layout);
    return cudaGetLastError();
}

}  // namespace orin::cuda
