#include <device/launch.cuh>

#include "kv_gather.h"
#include "kv_rows.cuh"

namespace orin::cuda {

namespace {

constexpr int threads = 128;
constexpr int warps = threads / 32;
constexpr int positions = kv_min_page_size;  // of a warp: they lie in one page
constexpr int max_tokens = 65535;            // of a grid

__device__ uint32_t pack_halves(float low, float high) {
    return __half_as_ushort(__float2half_rn(low)) | uint32_t{__half_as_ushort(__float2half_rn(high))} << 16;
}

// All heads of a cell, by a warp. cell: null for zeros
template <typename Packed>
__device__ void copy_cell(KvType type, const char * cell, int n_heads, int dim, int head_bytes, __half * to,
                          int64_t head_stride) {
    const int units = dim / kv_unit;
    for (int i = static_cast<int>(threadIdx.x) % 32; i < n_heads * units; i += 32) {
        const int head = i / units;
        const int unit = i % units;
        float x[kv_unit] = {};
        if (cell != nullptr) {
            const UnitPlace at = place_of_unit(type, unit);
            Packed packed;
            packed.load(cell + head * head_bytes, at);
            packed.unpack(at, x);
        }
        *reinterpret_cast<uint4 *>(to + head * head_stride + unit * kv_unit) = make_uint4(
            pack_halves(x[0], x[1]), pack_halves(x[2], x[3]), pack_halves(x[4], x[5]), pack_halves(x[6], x[7]));
    }
}

// The segment that a place lies in, or none.
__device__ const KvSegment * segment_at(const KvSegments & from, int place) {
    int i = -1;
    while (i + 1 < from.n && from.segments[i + 1].place <= place) {
        i++;
    }
    return i < 0 ? nullptr : from.segments + i;
}

// Grid: groups of positions; K and V.
__global__ void __launch_bounds__(threads) kv_gather_kernel(KvGatherParams p, int k_head_bytes, int v_head_bytes) {
    const bool is_k = blockIdx.y == 0;
    const PagedKv & kv = p.kv;
    const KvType type = is_k ? kv.k_type : kv.v_type;
    const auto * cells = static_cast<const char *>(is_k ? kv.k : kv.v);
    const int64_t row_bytes = is_k ? kv.k_row_bytes : kv.v_row_bytes;
    const int dim = is_k ? kv.head_dim_k : kv.head_dim_v;
    const int head_bytes = is_k ? k_head_bytes : v_head_bytes;
    const GatheredRows & result = is_k ? p.k : p.v;

    const int place = (static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / 32) * positions;
    if (place >= p.n_positions) {
        return;
    }
    const KvSegment * segment = segment_at(p.from, place);
    const int first = segment == nullptr ? 0 : segment->begin + place - segment->place;
    const int n = segment == nullptr ? 0 : min(max(segment->end - first, 0), positions);
    int64_t cell = 0;
    if (n > 0) {
        cell = kv_cell(kv, kv.block_tables + int64_t(segment->row) * kv.max_pages, first);
    }
    with_kv_unit(type, [&](auto packed) {
        for (int i = 0; i < positions; i++) {
            const char * from = i < n ? cells + (cell + i) * row_bytes : nullptr;
            copy_cell<decltype(packed)>(type, from, kv.n_head_kv, dim, head_bytes,
                                        static_cast<__half *>(result.halves) + (place + i) * result.position_stride,
                                        result.head_stride);
        }
    });
}

// A thread has a token and a group of positions. Grid: groups; tokens.
__global__ void __launch_bounds__(threads) kv_mask_kernel(KvMaskParams p) {
    const int place = (static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x)) * positions;
    const int token = static_cast<int>(blockIdx.y);
    if (place >= p.n_positions) {
        return;
    }
    const int position = p.positions[token];
    const int first_seen = p.window == 0 ? 0 : position - p.window + 1;
    const KvSegment * segment = segment_at(p.from, place);
    const bool is_own = segment != nullptr && segment->row == p.rows[token];
    const int first = is_own ? segment->begin + place - segment->place : 0;
    const int behind = is_own ? min(segment->end, position + 1) : 0;
    uint32_t pairs[positions / 2];
    for (int i = 0; i < positions / 2; i++) {
        const auto half = [&](int at) -> uint32_t { return at >= first_seen && at < behind ? 0 : 0xFC00; };
        pairs[i] = half(first + 2 * i) | half(first + 2 * i + 1) << 16;
    }
    static_assert(positions == 8);
    *reinterpret_cast<uint4 *>(static_cast<__half *>(p.halves) + int64_t(token) * p.n_positions + place) =
        make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

bool can_write(const GatheredRows & rows) {
    return rows.halves != nullptr && reinterpret_cast<uintptr_t>(rows.halves) % 16 == 0 &&
           rows.position_stride % kv_unit == 0 && rows.head_stride % kv_unit == 0;
}

bool can_place(const KvSegments & from, int32_t n_positions) {
    return from.segments != nullptr && from.n >= 0 && n_positions >= 0 && n_positions % positions == 0;
}

unsigned n_blocks(int32_t n_positions, int of_a_block) {
    return unsigned((n_positions / positions + of_a_block - 1) / of_a_block);
}

}  // namespace

cudaError_t kv_gather(const KvGatherParams & p, cudaStream_t stream) {
    if (!can_read_kv(p.kv) || !can_place(p.from, p.n_positions) || !has_kv(p.kv) || !can_write(p.k) ||
        !can_write(p.v)) {
        return cudaErrorInvalidValue;
    }
    if (p.n_positions == 0) {
        return cudaSuccess;
    }
    ORIN_LAUNCH(kv_gather_kernel, dim3(n_blocks(p.n_positions, warps), 2), threads, 0, stream, p,
                int(kv_row_bytes(p.kv.k_type, p.kv.head_dim_k)), int(kv_row_bytes(p.kv.v_type, p.kv.head_dim_v)));
    return cudaGetLastError();
}

cudaError_t kv_mask(const KvMaskParams & p, cudaStream_t stream) {
    if (!can_place(p.from, p.n_positions) || p.n_tokens < 0 || p.n_tokens > max_tokens || p.window < 0 ||
        p.rows == nullptr || p.positions == nullptr || p.halves == nullptr ||
        reinterpret_cast<uintptr_t>(p.halves) % 16 != 0) {
        return cudaErrorInvalidValue;
    }
    if (p.n_positions == 0 || p.n_tokens == 0) {
        return cudaSuccess;
    }
    ORIN_LAUNCH(kv_mask_kernel, dim3(n_blocks(p.n_positions, threads), unsigned(p.n_tokens)), threads, 0, stream, p);
    return cudaGetLastError();
}

}  // namespace orin::cuda
