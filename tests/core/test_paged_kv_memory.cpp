// After construction the page pool allocates nothing, whatever sequences do.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "kv_support.h"

namespace {

int64_t n_allocations = 0;

}  // namespace

void * operator new(std::size_t size) {
    n_allocations++;
    if (void * memory = std::malloc(size)) {
        return memory;
    }
    throw std::bad_alloc();
}

void operator delete(void * memory) noexcept {
    std::free(memory);
}

void operator delete(void * memory, std::size_t) noexcept {
    std::free(memory);
}

using namespace orin;

namespace {

int64_t allocations_of_a_day(int32_t window) {
    PagedKvConfig config;
    config.n_pages = 200;
    config.page_size = 16;
    config.max_sequences = 16;
    config.max_tokens = 1000;
    config.window = window;
    PagedKv kv(config);
    const TokenVector text = tokens(1000);
    const int64_t before = n_allocations;
    for (int32_t round = 0; round < 20; round++) {
        const int32_t prompt = 100 + 16 * (round % 4);
        for (SequenceId id = 0; id < 8; id++) {
            CHECK(kv.open() == id);
            const int32_t covered = kv.adopt_prefix(id, text.data(), prompt);
            CHECK(kv.append(id, text.data() + covered, prompt - covered));
            kv.commit(id);
        }
        for (SequenceId id = 0; id < 8; id++) {
            CHECK(kv.fork(id) == 8 + id);
        }
        for (int32_t step = 0; step < 50; step++) {
            for (SequenceId id = 0; id < 16; id++) {
                const int32_t token = 1000 + id + round;
                CHECK(kv.append(id, &token, 1));
            }
            kv.clear_copies();
            for (SequenceId id = 0; id < 16; id++) {
                kv.commit(id);
            }
        }
        for (SequenceId id = 0; id < 16; id++) {
            kv.truncate(id, kv.n_tokens(id) - 3);
            kv.close(id);
        }
        kv.set_budget(round % 2 == 0 ? 150 : 199);
    }
    const PageCounters counters = kv.counters();
    CHECK(counters.evictions > 0 && counters.copies > 0 && counters.prefix_hits > 0 && counters.cached > 0);
    return n_allocations - before;
}

}  // namespace

int main() {
    CHECK(allocations_of_a_day(0) == 0);
    CHECK(allocations_of_a_day(50) == 0);
    const int64_t before = n_allocations;
    CHECK(tokens(1).size() == 1 && n_allocations > before);  // they are counted
}
