// Page pools of different threads share nothing. Run under the thread sanitizer.
#include <cstdint>
#include <thread>
#include <vector>

#include "kv_storm.h"

int main(int argc, char ** argv) {
    using namespace orin;
    constexpr int32_t n_threads = 4;
    const int64_t per_thread = operations(argc, argv, 20000) / n_threads;
    std::vector<std::thread> threads;
    for (int32_t seed = 0; seed < n_threads; seed++) {
        threads.emplace_back([=] {
            Random random(static_cast<uint64_t>(seed));
            for (int64_t done = 0; done < per_thread; done += 500) {
                KvStorm storm(random, random_kv_config(random));
                for (int32_t i = 0; i < 500; i++) {
                    storm.operation();
                }
            }
        });
    }
    for (std::thread & thread : threads) {
        thread.join();
    }
}
