// What the programs in this folder share: a check that ends the program, and random numbers that repeat.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                                \
        }                                                                                \
    } while (false)

namespace orin {

// Operations to do: as many as the first argument says, as a program under a sanitizer is slower.
inline int64_t operations(int argc, char ** argv, int64_t otherwise) {
    return argc > 1 ? std::atoll(argv[1]) : otherwise;
}

class Random {
   public:
    explicit Random(uint64_t seed) : engine_(seed) {}

    // 0 … n - 1
    int32_t below(int32_t n) { return static_cast<int32_t>(engine_() % static_cast<uint64_t>(n)); }
    bool one_in(int32_t n) { return below(n) == 0; }

   private:
    std::mt19937_64 engine_;
};

}  // namespace orin
