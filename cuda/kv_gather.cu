#include <device/launch.cuh>

#include "kv_gather.h"
#include "kv_rows.cuh"

namespace orin::cuda {

namespace {

constexpr int threads = 128;
constexpr int warps = threads / 32;
constexpr int positions = kv_min_page_size;  // of a warp: they lie in one page

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

    // A warp's positions begin at a multiple of their number, and so lie in one page.
    const int group = static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / 32;
    const int64_t first = (int64_t(p.begin / positions) + group) * positions;
    const int64_t begin = first < p.begin ? p.begin : first;
    const int64_t behind = min(first + positions, int64_t(p.begin) + p.n_positions);
    int64_t cell = 0;
    if (begin < behind && begin < p.end) {
        cell = kv_cell(kv, kv.block_tables + int64_t(p.row) * kv.max_pages, int(begin));
    }
    with_kv_unit(type, [&](auto packed) {
        for (int64_t position = begin; position < behind; position++) {
            const char * from = position < p.end ? cells + (cell + position - begin) * row_bytes : nullptr;
            copy_cell<decltype(packed)>(
                type, from, kv.n_head_kv, dim, head_bytes,
                static_cast<__half *>(result.halves) + (position - p.begin) * result.position_stride,
                result.head_stride);
        }
    });
}

bool can_write(const GatheredRows & rows) {
    return rows.halves != nullptr && reinterpret_cast<uintptr_t>(rows.halves) % 16 == 0 &&
           rows.position_stride % kv_unit == 0 && rows.head_stride % kv_unit == 0;
}

}  // namespace

cudaError_t kv_gather(const KvGatherParams & p, cudaStream_t stream) {
    if (!can_read_kv(p.kv) || p.row < 0 || p.begin < 0 || p.end < p.begin || p.n_positions < p.end - p.begin ||
        (p.n_positions > 0 && (!has_kv(p.kv) || !can_write(p.k) || !can_write(p.v)))) {
        return cudaErrorInvalidValue;
    }
    if (p.n_positions == 0) {
        return cudaSuccess;
    }
    const int64_t n_groups = (int64_t(p.begin) % positions + p.n_positions + positions - 1) / positions;
    const dim3 grid(unsigned((n_groups + warps - 1) / warps), 2);
    ORIN_LAUNCH(kv_gather_kernel, grid, threads, 0, stream, p, int(kv_row_bytes(p.kv.k_type, p.kv.head_dim_k)),
                int(kv_row_bytes(p.kv.v_type, p.kv.head_dim_v)));
    return cudaGetLastError();
}

}  // namespace orin::cuda
