// The same seed, choice and position give the same token whatever runs beside: other rows, in any order, other threads.
#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "check.h"
#include "sampling/sampling.h"
#include "sampling_cases.h"

namespace orin {
namespace {

constexpr int32_t n_vocab = 700;
constexpr int32_t n_threads = 4;

// Samples all rows in batches of random sizes and in an order of its own.
std::vector<int32_t> sample_in_batches(const std::vector<sampling::Row> & rows, uint64_t seed) {
    Random random(seed);
    std::vector<size_t> order(rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1], order[size_t(random.below(static_cast<int32_t>(i)))]);
    }
    sampling::Workspace workspace(n_vocab);
    std::vector<int32_t> tokens(rows.size());
    for (size_t start = 0; start < rows.size();) {
        const size_t size = std::min(rows.size() - start, size_t(1 + random.below(16)));
        std::vector<sampling::Row> batch;
        for (size_t i = start; i < start + size; ++i) {
            batch.push_back(rows[order[i]]);
        }
        std::vector<int32_t> drawn(size);
        sampling::sample_rows(workspace, batch.data(), static_cast<int32_t>(size), drawn.data());
        for (size_t i = 0; i < size; ++i) {
            tokens[order[start + i]] = drawn[i];
        }
        start += size;
    }
    return tokens;
}

}  // namespace
}  // namespace orin

int main(int argc, char ** argv) {
    using namespace orin;
    Random random(13);
    std::vector<Case> cases(static_cast<size_t>(std::max<int64_t>(16, operations(argc, argv, 40'000) / 20)));
    std::vector<sampling::Row> rows;
    for (Case & made : cases) {
        made = random_case(random, 1 + random.below(n_vocab));
        rows.push_back(row_of(made));
    }
    std::vector<int32_t> alone;
    for (const sampling::Row & row : rows) {
        sampling::Workspace workspace(row.n_vocab);
        int32_t token;
        sampling::sample_rows(workspace, &row, 1, &token);
        alone.push_back(token);
    }
    CHECK(std::count_if(alone.begin(), alone.end(), [](int32_t token) { return token >= 0; }) > 10);
    std::vector<std::vector<int32_t>> tokens(n_threads);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < n_threads; ++i) {
        threads.emplace_back([&, i] { tokens[i] = sample_in_batches(rows, i); });
    }
    for (std::thread & thread : threads) {
        thread.join();
    }
    for (const std::vector<int32_t> & drawn : tokens) {
        CHECK(drawn == alone);
    }
}
