#include "imatrix_sums.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "../engine/runtime.h"

namespace orin {
namespace {

constexpr int64_t columns_per_task = 256;

// One row of inputs, and where its squares are added.
struct Term {
    const float * row;
    float * sums;
};

// Each column is summed by one thread in the order of the terms.
void add_squares(const std::vector<Term> & terms, int64_t n_columns, int32_t n_threads) {
    const int64_t n_tasks = (n_columns + columns_per_task - 1) / columns_per_task;
#pragma omp parallel for num_threads(n_threads)
    for (int64_t task = 0; task < n_tasks; task++) {
        const int64_t begin = task * columns_per_task;
        const int64_t end = std::min(n_columns, begin + columns_per_task);
        for (const Term & term : terms) {
            for (int64_t i = begin; i < end; i++) {
                term.sums[i] += term.row[i] * term.row[i];
            }
        }
    }
}

void check_finite(const std::string & name, const std::vector<float> & sums) {
    if (!std::all_of(sums.begin(), sums.end(), [](float sum) { return std::isfinite(sum); })) {
        throw EngineError("the inputs of " + name +
                          " are not finite: the model is damaged, or its activations overflow on this device");
    }
}

}  // namespace

void ImatrixSums::put(const std::string & name, TensorSums sums) {
    if (sums.counts.empty() || sums.sums.empty() || sums.sums.size() % sums.counts.size() != 0) {
        throw std::invalid_argument(name + ": expected sums for each count, in rows of the same size");
    }
    sums_[name] = std::move(sums);
}

TensorSums & ImatrixSums::find(const std::string & name, int64_t n_values, int64_t n_counts) {
    TensorSums & found = sums_[name];
    if (found.sums.empty()) {
        found.sums.resize(static_cast<size_t>(n_values));
        found.counts.resize(static_cast<size_t>(n_counts));
    }
    if (found.sums.size() != static_cast<size_t>(n_values)) {
        throw EngineError("the statistics to go on with have " + std::to_string(found.sums.size()) + " sums for " +
                          name + ", and the model has " + std::to_string(n_values) + ": they are of another model");
    }
    return found;
}

void ImatrixSums::add_matrices(const std::string & name, const ggml_tensor & weights, const ggml_tensor & inputs,
                               const char * data) {
    const int64_t n_matrices = weights.ne[2] * weights.ne[3];
    TensorSums & found = find(name, inputs.ne[0] * n_matrices, 1);
    // Older files count each matrix of a tensor.
    const auto is_first = [&](int64_t count) { return count == found.counts[0]; };
    if (std::all_of(found.counts.begin(), found.counts.end(), is_first)) {
        found.counts.resize(1);
    }
    std::vector<Term> terms;
    terms.reserve(static_cast<size_t>(ggml_nrows(&inputs)));
    for (int64_t i3 = 0; i3 < inputs.ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < inputs.ne[2]; i2++) {
            // More inputs than matrices: several heads read the same one.
            const int64_t matrix = (i3 % weights.ne[3]) * weights.ne[2] + i2 % weights.ne[2];
            const char * rows = data + i3 * inputs.nb[3] + i2 * inputs.nb[2];
            for (int64_t i1 = 0; i1 < inputs.ne[1]; i1++) {
                terms.push_back({reinterpret_cast<const float *>(rows + i1 * inputs.nb[1]),
                                 found.sums.data() + matrix * inputs.ne[0]});
            }
        }
    }
    add_squares(terms, inputs.ne[0], n_threads_);
    check_finite(name, found.sums);
    for (int64_t & count : found.counts) {
        count += ggml_nrows(&inputs) / n_matrices;
    }
}

void ImatrixSums::add_experts(const std::string & name, const ggml_tensor & weights, const ggml_tensor & inputs,
                              const char * data, const ggml_tensor & ids, const char * chosen) {
    const int64_t n_experts = weights.ne[2];
    TensorSums & found = find(name, inputs.ne[0] * n_experts, n_experts);
    if (found.counts.size() == 1) {
        found.counts.resize(static_cast<size_t>(n_experts), found.counts[0]);  // of an older file
    }
    if (found.counts.size() != static_cast<size_t>(n_experts)) {
        throw EngineError("the statistics to go on with have " + std::to_string(found.counts.size()) + " experts of " +
                          name + ", and the model has " + std::to_string(n_experts) + ": they are of another model");
    }
    std::vector<Term> terms;
    terms.reserve(static_cast<size_t>(ids.ne[0] * ids.ne[1]));
    for (int64_t slot = 0; slot < ids.ne[0]; slot++) {
        for (int64_t token = 0; token < ids.ne[1]; token++) {
            int32_t expert = 0;
            std::memcpy(&expert, chosen + token * ids.nb[1] + slot * ids.nb[0], sizeof(expert));
            if (expert < 0 || expert >= n_experts) {
                throw EngineError(name + ": the model chose expert " + std::to_string(expert) + " of " +
                                  std::to_string(n_experts) + ": it is damaged");
            }
            const char * row = data + (slot % inputs.ne[1]) * inputs.nb[1] + token * inputs.nb[2];
            terms.push_back({reinterpret_cast<const float *>(row), found.sums.data() + expert * inputs.ne[0]});
            found.counts[static_cast<size_t>(expert)]++;
        }
    }
    add_squares(terms, inputs.ne[0], n_threads_);
    check_finite(name, found.sums);
}

}  // namespace orin
