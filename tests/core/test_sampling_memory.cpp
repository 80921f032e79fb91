// Sampling allocates nothing once its workspace is made.
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "check.h"
#include "sampling/logprobs.h"
#include "sampling/sampling.h"
#include "sampling_cases.h"

namespace {
std::atomic<int64_t> allocations{0};
}

// Not inlined: the compiler would see malloc and free apart, and take them for a mismatch.
#define NOT_INLINED __attribute__((noinline))

NOT_INLINED void * operator new(size_t size) {
    ++allocations;
    if (void * memory = std::malloc(size)) {
        return memory;
    }
    throw std::bad_alloc();
}
void * operator new[](size_t size) {
    return operator new(size);
}
NOT_INLINED void operator delete(void * memory) noexcept {
    std::free(memory);
}
NOT_INLINED void operator delete[](void * memory) noexcept {
    std::free(memory);
}
NOT_INLINED void operator delete(void * memory, size_t) noexcept {
    std::free(memory);
}
NOT_INLINED void operator delete[](void * memory, size_t) noexcept {
    std::free(memory);
}

int main(int argc, char ** argv) {
    using namespace orin;
    constexpr int32_t n_vocab = 5000;
    Random random(5);
    sampling::Workspace workspace(n_vocab);
    std::vector<sampling::TokenLogprob> result(n_vocab + 1);
    const int64_t at_start = allocations;
    CHECK(at_start > 0);  // counting works
    const int64_t count = operations(argc, argv, 2000) / 10;
    for (int64_t i = 0; i < count; ++i) {
        const Case made = random_case(random, 1 + random.below(n_vocab));
        const sampling::Row row = row_of(made);
        const int64_t before = allocations;
        int32_t token;
        sampling::sample_rows(workspace, &row, 1, &token);
        if (token >= 0) {
            sampling::sample_row(workspace, row);
            sampling::candidates_of(workspace, row);
            sampling::top_logprobs(workspace, row.logits, row.n_vocab, random.below(row.n_vocab + 1), token,
                                   result.data());
        }
        CHECK(allocations == before);
    }
}
