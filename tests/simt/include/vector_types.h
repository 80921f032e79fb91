// CUDA's vectors, aligned as there: the undefined-behaviour sanitizer reports one that is read from elsewhere.
#pragma once

#include <cstdint>

#define SIMT_VECTOR(type, name, bytes2, bytes4)                     \
    struct alignas(bytes2) name##2 {                                \
        type x, y;                                                  \
    };                                                              \
    struct alignas(bytes4) name##4 {                                \
        type x, y, z, w;                                            \
    };                                                              \
    inline name##2 make_##name##2(type x, type y) {                 \
        return {x, y};                                              \
    }                                                               \
    inline name##4 make_##name##4(type x, type y, type z, type w) { \
        return {x, y, z, w};                                        \
    }

SIMT_VECTOR(float, float, 8, 16)
SIMT_VECTOR(int, int, 8, 16)
SIMT_VECTOR(unsigned, uint, 8, 16)
SIMT_VECTOR(int8_t, char, 2, 4)
SIMT_VECTOR(uint8_t, uchar, 2, 4)

struct dim3 {
    unsigned x = 1;
    unsigned y = 1;
    unsigned z = 1;

    dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1) : x(x_size), y(y_size), z(z_size) {}
};
