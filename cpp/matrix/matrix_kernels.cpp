#ifdef ORIN_CUDA
#include "matrix_kernels.h"

#include "../../cuda/matrix_product.h"
#include "../../cuda/matrix_vector.h"

namespace orin {
namespace {

// Rows of f16 are for tensor cores.
bool is_product(const cuda::MatrixParams & params) {
    return params.input.format == cuda::RowFormat::f16;
}

}  // namespace

void cut(cuda::MatrixParams & params, const MatrixSetup & setup) {
    const MatrixChoices & choices = setup.choices;
    if (is_product(params)) {
        params.n_splits = choices.product_splits != 0 ? choices.product_splits
                                                      : cuda::matrix_product_splits(params, setup.n_multiprocessors);
        params.workspace = params.n_splits > 1 ? setup.workspace : nullptr;
        params.counters = params.n_splits > 1 ? setup.counters : nullptr;
        return;
    }
    const cuda::MatrixVectorCut cut = cuda::matrix_vector_cut(params, setup.n_multiprocessors);
    params.rows_per_warp = choices.vector_rows != 0 ? choices.vector_rows : cut.rows_per_warp;
    params.n_splits = choices.vector_splits != 0 ? choices.vector_splits : cut.n_splits;
}

bool can_compute(cuda::MatrixParams params) {
    params.rows_per_warp = 1;
    params.n_splits = 1;
    return is_product(params) ? cuda::can_matrix_product(params) : cuda::can_matrix_vector(params);
}

cudaError_t compute(const cuda::MatrixParams & params, cudaStream_t stream) {
    return is_product(params) ? cuda::matrix_product(params, stream) : cuda::matrix_vector(params, stream);
}

MatrixMemory memory_for(const cuda::MatrixParams & params) {
    return is_product(params)
               ? MatrixMemory{cuda::matrix_product_workspace_bytes(params), cuda::matrix_product_counter_bytes(params)}
               : MatrixMemory{0, 0};
}

}  // namespace orin
#endif
