#include <algorithm>
#include <device/launch.cuh>

#include "device_size.h"
#include "divide_up.h"
#include "matrix_vector.h"
#include "matrix_vector_block.cuh"
#include "matrix_vector_layout.h"
#include "matrix_vector_result.cuh"
#include "shared_limits.h"
#include "weight_blocks_32.cuh"
#include "weight_blocks_f16.cuh"
#include "weight_blocks_k.cuh"

namespace orin::cuda {

namespace {

constexpr int most_panel_bytes = 40 * 1024;
constexpr int64_t most_row_bytes = 1 << 28;  // places in a few rows are told by 32 bits

__device__ __forceinline__ VectorJob job_of(const MatrixParams & p, const VectorLayout & layout) {
    if (p.gate != Gate::none) {
        return {0, 1, int(blockIdx.x) << layout.row_bits, p.matrices[0].n_rows};
    }
    int matrix = 0;
    for (int i = 1; i < max_matrices; i++) {
        matrix = i < p.n_matrices && int(blockIdx.x) >= layout.first_blocks[i] ? i : matrix;
    }
    const int first = matrix == 0 ? 0 : matrix == 1 ? layout.first_blocks[1] : layout.first_blocks[2];
    return {matrix, 0, (int(blockIdx.x) - first) << layout.row_bits, matrix_of(p, matrix).n_rows};
}

// At once on a multiprocessor: as many as registers allow without spills.
constexpr int blocks_per_multiprocessor(int rows_per_warp, int columns) {
    return rows_per_warp * columns == 1 ? 4 : rows_per_warp * columns == 2 ? 3 : 2;
}

// is_f16: or else any quantized type, which all blocks of a matrix have
template <bool is_f16, int rows_per_warp, int columns>
__global__ void __launch_bounds__(vector_threads, blocks_per_multiprocessor(rows_per_warp, columns))
    matrix_vector_kernel(MatrixParams p, VectorLayout layout) {
    char * shared = shared_memory<char>();
    const VectorJob job = job_of(p, layout);
    const VectorResult<columns> result(p, layout, job);
    if constexpr (is_f16) {
        VectorBlock<WeightType::f16, rows_per_warp, columns>(p, layout, job, shared).run();
    } else {
        switch (matrix_of(p, job.matrix).type) {
            case WeightType::f16:
                break;
            case WeightType::q8_0:
                VectorBlock<WeightType::q8_0, rows_per_warp, columns>(p, layout, job, shared).run();
                break;
            case WeightType::q4_0:
                VectorBlock<WeightType::q4_0, rows_per_warp, columns>(p, layout, job, shared).run();
                break;
            case WeightType::q4_1:
                VectorBlock<WeightType::q4_1, rows_per_warp, columns>(p, layout, job, shared).run();
                break;
            case WeightType::q4_K:
                VectorBlock<WeightType::q4_K, rows_per_warp, columns>(p, layout, job, shared).run();
                break;
            case WeightType::q5_K:
                VectorBlock<WeightType::q5_K, rows_per_warp, columns>(p, layout, job, shared).run();
                break;
            case WeightType::q6_K:
                VectorBlock<WeightType::q6_K, rows_per_warp, columns>(p, layout, job, shared).run();
                break;
        }
    }
    __syncthreads();
    result.store(p, layout, job, reinterpret_cast<const float *>(shared + layout.results));
}

// --- sizes

struct PieceSize {
    int values;
    int bytes;
    int alignment;
};

PieceSize piece_size(WeightType type) {
    switch (type) {
        case WeightType::f16:
            return {PieceOf<WeightType::f16>::values, PieceOf<WeightType::f16>::bytes, 16};
        case WeightType::q8_0:
            return {PieceOf<WeightType::q8_0>::values, PieceOf<WeightType::q8_0>::bytes, 2};
        case WeightType::q4_0:
            return {PieceOf<WeightType::q4_0>::values, PieceOf<WeightType::q4_0>::bytes, 2};
        case WeightType::q4_1:
            return {PieceOf<WeightType::q4_1>::values, PieceOf<WeightType::q4_1>::bytes, 4};
        case WeightType::q4_K:
            return {PieceOf<WeightType::q4_K>::values, PieceOf<WeightType::q4_K>::bytes, 16};
        case WeightType::q5_K:
            return {PieceOf<WeightType::q5_K>::values, PieceOf<WeightType::q5_K>::bytes, 16};
        case WeightType::q6_K:
            return {PieceOf<WeightType::q6_K>::values, PieceOf<WeightType::q6_K>::bytes, 2};
    }
    return {};
}

int columns_of(const MatrixParams & p) {
    return p.n_tokens <= 2 ? p.n_tokens : p.n_tokens <= 4 ? 4 : 8;
}

int rows_per_warp_of(const MatrixParams & p) {
    return columns_of(p) == 1 ? p.rows_per_warp : std::min(p.rows_per_warp, 2);
}

bool has_int8_results(const MatrixParams & p) {
    return p.out_rows.rows != nullptr && p.out_rows.format == RowFormat::int8;
}

constexpr int log2_of(int n) {
    return n <= 1 ? 0 : 1 + log2_of(n / 2);
}

// Some times what a device has room for, if rows_per_warp is what matrix_vector_cut() says.
constexpr int wanted_blocks(int rows_per_warp) {
    return rows_per_warp == 4 ? 96 : 1536;
}

VectorLayout layout_of(const MatrixParams & p) {
    VectorLayout layout{};
    layout.split_bits = log2_of(std::min(p.n_splits, vector_warps));
    layout.n_splits = 1 << layout.split_bits;
    const int n_matrices = p.gate == Gate::none ? 1 : 2;  // of a block
    const int rows_per_pass = (vector_warps >> layout.split_bits) * rows_per_warp_of(p);
    int rows_per_block = has_int8_results(p) ? row_group_values : rows_per_pass;
    // Where there are many rows a block has more of them, one pass after the other: it begins once for all.
    while (rows_per_block * columns_of(p) < vector_threads &&
           p.matrices[0].n_rows >= 2 * rows_per_block * wanted_blocks(p.rows_per_warp)) {
        rows_per_block *= 2;
    }
    layout.row_bits = log2_of(rows_per_block);
    layout.n_passes = rows_per_block / rows_per_pass * n_matrices;
    int n_blocks = 0;
    for (int i = 0; i < p.n_matrices; i++) {
        const PieceSize piece = piece_size(p.matrices[i].type);
        // Where rows may begin at any multiple of 2 or 4, a copy has up to 15 bytes more.
        layout.slot_bytes = std::max(layout.slot_bytes, piece.bytes + (piece.alignment == 16 ? 0 : 16));
        layout.first_blocks[i] = n_blocks;
        n_blocks += divide_up(p.matrices[i].n_rows, rows_per_block);
    }
    const bool is_f32 = p.input.format == RowFormat::f32;
    const int step = is_f32 ? PieceOf<WeightType::f16>::values : 2048;  // a multiple of all pieces
    const int bytes_of_step = is_f32 ? step * int(sizeof(float)) : step / record_values * int(sizeof(ActivationRecord));
    const int slots_bytes = vector_warps * vector_slots * layout.slot_bytes;
    const int n_results = (n_matrices << (layout.split_bits + layout.row_bits)) * columns_of(p);
    const int results_bytes = n_results * int(sizeof(float));
    const int panel_bytes = std::min(most_panel_bytes, int(most_shared_bytes) - slots_bytes - results_bytes);
    const int n_steps = std::max(1, panel_bytes / (bytes_of_step * p.n_tokens));
    layout.panel_values = std::min(n_steps, divide_up(p.input.n_values, step)) * step;
    layout.slots = bytes_of_step * (layout.panel_values / step) * p.n_tokens;
    layout.results = layout.slots + slots_bytes;
    layout.end = layout.results + results_bytes;
    return layout;
}

int n_blocks_of(const MatrixParams & p, const VectorLayout & layout) {
    int n_blocks = 0;
    for (int i = 0; i < (p.gate == Gate::none ? p.n_matrices : 1); i++) {
        n_blocks += divide_up(p.matrices[i].n_rows, 1 << layout.row_bits);
    }
    return n_blocks;
}

// --- launches

template <bool is_f16, int rows_per_warp, int columns>
cudaError_t launch_kernel(const MatrixParams & p, cudaStream_t stream) {
    const VectorLayout layout = layout_of(p);
    const auto kernel = matrix_vector_kernel<is_f16, rows_per_warp, columns>;
    if (const cudaError_t error = allow_shared_memory(kernel, size_t(layout.end)); error != cudaSuccess) {
        return error;
    }
    ORIN_LAUNCH(kernel, unsigned(n_blocks_of(p, layout)), vector_threads, size_t(layout.end), stream, p, layout);
    return cudaGetLastError();
}

template <int rows_per_warp, int columns>
cudaError_t launch(const MatrixParams & p, cudaStream_t stream) {
    return p.input.format == RowFormat::f32 ? launch_kernel<true, rows_per_warp, columns>(p, stream)
                                            : launch_kernel<false, rows_per_warp, columns>(p, stream);
}

bool is_readable(const MatrixParams & p, const WeightMatrix & matrix) {
    const bool is_f16 = matrix.type == WeightType::f16;
    const int32_t block_values = weight_block_values(matrix.type);
    return matrix.n_rows > 0 && matrix.row_bytes <= most_row_bytes &&
           p.input.format == (is_f16 ? RowFormat::f32 : RowFormat::int8) && block_values > 0 &&
           p.input.n_values % block_values == 0 && matrix.row_bytes % piece_size(matrix.type).alignment == 0 &&
           matrix.row_bytes >= int64_t(p.input.n_values) / block_values * weight_block_bytes(matrix.type);
}

bool is_aligned(const void * pointer) {
    return pointer != nullptr && reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

bool has_pointers(const MatrixParams & p) {
    for (int i = 0; i < p.n_matrices; i++) {
        const bool is_written = p.out_rows.rows == nullptr && (p.gate == Gate::none || i == 0);
        if (!is_aligned(p.matrices[i].rows) || (is_written && p.matrices[i].out == nullptr)) {
            return false;
        }
    }
    return is_aligned(p.input.rows) && (p.out_rows.rows == nullptr || is_aligned(p.out_rows.rows));
}

}  // namespace

MatrixVectorCut matrix_vector_cut(const MatrixParams & params, int32_t n_multiprocessors) {
    // Few multiprocessors are short of instructions, which rows that share activations save; many want to be busy all
    // at once, so that no block comes late.
    const bool are_few = has_few_multiprocessors(n_multiprocessors);
    const int shared_bytes = (are_few ? 164 : 228) * 1024;
    MatrixParams p = params;
    p.rows_per_warp = 1;
    p.n_splits = 1;
    const auto blocks = [&p] { return n_blocks_of(p, layout_of(p)); };
    const auto blocks_at_once = [&] {
        const int most = shared_bytes / (layout_of(p).end + 1024);
        return n_multiprocessors * std::min(most, blocks_per_multiprocessor(rows_per_warp_of(p), columns_of(p)));
    };
    const int most_rows = are_few && columns_of(p) == 1 ? 4 : 2;
    while (p.rows_per_warp < most_rows && blocks() > blocks_at_once()) {
        p.rows_per_warp *= 2;
    }
    int n_pieces = 1;
    for (int i = 0; i < p.n_matrices; i++) {
        n_pieces = std::max(n_pieces, divide_up(p.input.n_values, piece_size(p.matrices[i].type).values));
    }
    while (p.n_splits * 2 <= std::min(n_pieces, vector_warps) && blocks() * 2 <= blocks_at_once()) {
        p.n_splits *= 2;
    }
    return {p.rows_per_warp, p.n_splits};
}

bool can_matrix_vector(const MatrixParams & p) {
    const bool is_gate = p.gate != Gate::none;
    if (p.n_tokens < 0 || p.n_tokens > matrix_vector_max_tokens || p.n_matrices < 1 || p.n_matrices > max_matrices ||
        p.input.n_values <= 0 || p.input.n_values % row_group_values != 0 ||
        (p.rows_per_warp != 1 && p.rows_per_warp != 2 && p.rows_per_warp != 4) || p.n_splits < 1 ||
        (is_gate && (p.n_matrices != 2 || p.matrices[0].n_rows != p.matrices[1].n_rows ||
                     p.matrices[0].type != p.matrices[1].type)) ||
        ((p.residual != nullptr || p.out_rows.rows != nullptr) && p.n_matrices != 1 && !is_gate)) {
        return false;
    }
    for (int i = 0; i < p.n_matrices; i++) {
        if (!is_readable(p, p.matrices[i])) {
            return false;
        }
    }
    return p.out_rows.rows == nullptr ||
           (p.out_rows.n_values == p.matrices[0].n_rows &&
            (p.out_rows.format != RowFormat::int8 || p.out_rows.n_values % row_group_values == 0));
}

cudaError_t matrix_vector(const MatrixParams & p, cudaStream_t stream) {
    if (!can_matrix_vector(p) || (p.n_tokens > 0 && !has_pointers(p))) {
        return cudaErrorInvalidValue;
    }
    const int rows_per_warp = rows_per_warp_of(p);
    switch (columns_of(p)) {
        case 0:
            return cudaSuccess;
        case 1:
            return rows_per_warp == 1   ? launch<1, 1>(p, stream)
                   : rows_per_warp == 2 ? launch<2, 1>(p, stream)
                                        : launch<4, 1>(p, stream);
        case 2:
            return rows_per_warp == 1 ? launch<1, 2>(p, stream) : launch<2, 2>(p, stream);
        case 4:
            return rows_per_warp == 1 ? launch<1, 4>(p, stream) : launch<2, 4>(p, stream);
        default:
            return rows_per_warp == 1 ? launch<1, 8>(p, stream) : launch<2, 8>(p, stream);
    }
}

}  // namespace orin::cuda
