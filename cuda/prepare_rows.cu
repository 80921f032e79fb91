#include <algorithm>
#include <device/launch.cuh>
#include <iterator>

#include "activation_rows.cuh"
#include "divide_up.h"
#include "l2_prefetch.cuh"
#include "prepare_rows.h"
#include "row_norm.cuh"

namespace orin::cuda {

namespace {

constexpr int max_quads = 4;    // that a thread keeps in registers
constexpr int few_tokens = 16;  // with no more, blocks do not fill the GPU: one has as many threads as it can use

// A token's row.
struct Row {
    const PrepareRowsParams & p;
    int64_t token;

    __device__ Quad x(int first) const { return Quad::load(p.x + token * p.x_stride, first, p.n_values); }
    __device__ Quad residual(int first) const {
        return Quad::load(p.residual + token * p.residual_stride, first, p.n_values);
    }
    __device__ Quad weights(int first) const { return Quad::load(p.weight, first, p.n_values); }
    __device__ Quad post_weights(int first) const { return Quad::load(p.post_weight, first, p.n_values); }

    __device__ void store_sum(int first, const Quad & quad) const {
        if (p.sum != nullptr) {
            store_f32_values(reinterpret_cast<char *>(p.sum + token * p.n_values), p.n_values, first, quad.values);
        }
    }
    // All threads take part.
    __device__ void store(int first, const Quad & quad, float factor) const {
        if (p.normed != nullptr) {
            store_f32_values(reinterpret_cast<char *>(p.normed + token * p.n_values), p.n_values, first, quad.values);
        }
        if (p.rows.rows != nullptr) {
            store_row_values(p.rows, token, first, quad.values, factor);
        }
    }
    __device__ bool wants_factor() const { return p.rows.rows != nullptr && p.rows.format == RowFormat::f16; }
};

// A thread has n_quads of a part of a row, a block's width apart, and keeps them from the load to the store. A row of
// which nothing has to be known as a whole may have several parts.
template <int n_quads>
__global__ void __launch_bounds__(max_row_threads) prepare_rows_kernel(PrepareRowsParams p, int parts) {
    const int64_t n_blocks = int64_t(p.n_tokens) * parts;
    if (blockIdx.x >= n_blocks) {
        return prefetch_part(p.prefetch, blockIdx.x - n_blocks);
    }
    const Row row{p, int64_t(blockIdx.x) / parts};
    const int begin = int(blockIdx.x % unsigned(parts) * blockDim.x * n_quads + threadIdx.x) * 4;
    const int step = int(blockDim.x) * 4;

    // All loads are under way at once, but for what would not fit into registers.
    constexpr bool loads_first = n_quads <= 2;
    Quad quads[n_quads];
    Quad weights[n_quads];
    Quad residual[n_quads];
    Quad post_weights[n_quads];
#pragma unroll
    for (int i = 0; i < n_quads; i++) {
        const int first = begin + i * step;
        quads[i] = row.x(first);
        if (loads_first && p.weight != nullptr) {
            weights[i] = row.weights(first);
        }
        if (loads_first && p.residual != nullptr) {
            residual[i] = row.residual(first);
        }
        if (loads_first && p.post_weight != nullptr) {
            post_weights[i] = row.post_weights(first);
        }
    }
    const auto squares = [&] {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < n_quads; i++) {
            sum += quads[i].squares();
        }
        return sum;
    };
    if (p.post_weight != nullptr) {
        const float scale = inverse_rms(Reduction::post_norm, squares(), p.n_values, p.post_eps);
#pragma unroll
        for (int i = 0; i < n_quads; i++) {
            quads[i].scale(scale, loads_first ? post_weights[i] : row.post_weights(begin + i * step));
        }
    }
    if (p.residual != nullptr) {
#pragma unroll
        for (int i = 0; i < n_quads; i++) {
            quads[i].add(loads_first ? residual[i] : row.residual(begin + i * step));
            row.store_sum(begin + i * step, quads[i]);
        }
    }
    if (p.weight != nullptr) {
        const float scale = inverse_rms(Reduction::norm, squares(), p.n_values, p.eps);
#pragma unroll
        for (int i = 0; i < n_quads; i++) {
            quads[i].scale(scale, loads_first ? weights[i] : row.weights(begin + i * step));
        }
    }
    float factor = 1.0f;
    if (row.wants_factor()) {
        float largest = 0.0f;
#pragma unroll
        for (int i = 0; i < n_quads; i++) {
            largest = quads[i].largest(largest);
        }
        factor = f16_factor(largest_of_block(largest));
    }
#pragma unroll
    for (int i = 0; i < n_quads; i++) {
        row.store(begin + i * step, quads[i], factor);
    }
}

// For rows that registers do not hold: each pass reads them again.
__global__ void __launch_bounds__(max_row_threads) prepare_long_rows_kernel(PrepareRowsParams p) {
    if (blockIdx.x >= unsigned(p.n_tokens)) {
        return prefetch_part(p.prefetch, int64_t(blockIdx.x) - p.n_tokens);
    }
    const Row row{p, int64_t(blockIdx.x)};
    const int step = int(blockDim.x) * 4;
    // Of all threads as often, whether or not they still have values. f(first)
    const auto pass = [&](const auto & f) {
        for (int begin = 0; begin < p.n_values; begin += step) {
            f(begin + int(threadIdx.x) * 4);
        }
    };
    float post_scale = 1.0f;
    const auto summed = [&](int first) {
        Quad quad = row.x(first);
        if (p.post_weight != nullptr) {
            quad.scale(post_scale, row.post_weights(first));
        }
        if (p.residual != nullptr) {
            quad.add(row.residual(first));
        }
        return quad;
    };
    if (p.post_weight != nullptr) {
        float squares = 0.0f;
        pass([&](int first) { squares += row.x(first).squares(); });
        post_scale = inverse_rms(Reduction::post_norm, squares, p.n_values, p.post_eps);
    }
    float scale = 1.0f;
    if (p.weight != nullptr) {
        float squares = 0.0f;
        pass([&](int first) { squares += summed(first).squares(); });
        scale = inverse_rms(Reduction::norm, squares, p.n_values, p.eps);
    }
    const auto normed = [&](int first, Quad quad) {
        if (p.weight != nullptr) {
            quad.scale(scale, row.weights(first));
        }
        return quad;
    };
    float factor = 1.0f;
    if (row.wants_factor()) {
        float largest = 0.0f;
        pass([&](int first) { largest = normed(first, summed(first)).largest(largest); });
        factor = f16_factor(largest_of_block(largest));
    }
    pass([&](int first) {
        const Quad quad = summed(first);
        row.store_sum(first, quad);
        row.store(first, normed(first, quad), factor);
    });
}

bool is_aligned(const void * pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

template <int n_quads>
cudaError_t launch(const PrepareRowsParams & p, int threads, cudaStream_t stream) {
    const int parts = divide_up(p.n_values / 4, threads * n_quads);
    const int64_t blocks = int64_t(p.n_tokens) * parts + prefetch_blocks(p.prefetch, threads);
    ORIN_LAUNCH(prepare_rows_kernel<n_quads>, unsigned(blocks), threads, reduction_bytes, stream, p, parts);
    return cudaGetLastError();
}

cudaError_t launch_long(const PrepareRowsParams & p, cudaStream_t stream) {
    const int64_t blocks = p.n_tokens + prefetch_blocks(p.prefetch, max_row_threads);
    ORIN_LAUNCH(prepare_long_rows_kernel, unsigned(blocks), max_row_threads, reduction_bytes, stream, p);
    return cudaGetLastError();
}

}  // namespace

bool can_prepare_rows(const PrepareRowsParams & p) {
    return p.n_tokens >= 0 && p.n_values > 0 && p.n_values % row_group_values == 0 && p.x_stride % 4 == 0 &&
           p.residual_stride % 4 == 0 && (p.rows.rows == nullptr || p.rows.n_values == p.n_values) &&
           is_prefetch(p.prefetch);
}

cudaError_t prepare_rows(const PrepareRowsParams & params, cudaStream_t stream) {
    const PrepareRowsParams & p = params;
    const void * pointers[] = {p.x, p.residual, p.post_weight, p.weight, p.sum, p.normed, p.rows.rows};
    if (!can_prepare_rows(p) || !std::all_of(std::begin(pointers), std::end(pointers), is_aligned) ||
        (p.residual == nullptr && (p.post_weight != nullptr || p.sum != nullptr))) {
        return cudaErrorInvalidValue;
    }
    if (p.n_tokens == 0) {
        return cudaSuccess;
    }
    const int quads = p.n_values / 4;
    const bool is_whole =
        p.weight != nullptr || p.post_weight != nullptr || (p.rows.rows != nullptr && p.rows.format == RowFormat::f16);
    const int of_thread = p.n_tokens <= few_tokens ? 1 : 2;
    const int threads = std::min(divide_up(divide_up(quads, of_thread), 32) * 32, is_whole ? max_row_threads : 256);
    if (!is_whole || quads <= threads) {
        return launch<1>(p, threads, stream);
    }
    if (quads <= threads * 2) {
        return launch<2>(p, threads, stream);
    }
    if (quads <= threads * max_quads) {
        return launch<max_quads>(p, threads, stream);
    }
    return launch_long(p, stream);
}

}  // namespace orin::cuda
