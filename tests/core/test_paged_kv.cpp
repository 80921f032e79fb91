// Over random sizes and operations the page pool does what the naive model does, and every sequence finds in its cells
// what was computed for exactly its tokens.
#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "kv_storm.h"

int main(int argc, char ** argv) {
    using namespace orin;
    const int64_t n_operations = operations(argc, argv, 200000);
    constexpr int64_t per_pool = 1000;
    Random random(20240607);
    int64_t n_pools = 0;
    for (int64_t done = 0; done < n_operations; done += per_pool, n_pools++) {
        KvStorm storm(random, random_kv_config(random));
        for (int64_t i = 0; i < std::min(per_pool, n_operations - done); i++) {
            storm.operation();
        }
    }
    std::printf("%lld operations on %lld pools\n", static_cast<long long>(n_operations),
                static_cast<long long>(n_pools));
}
