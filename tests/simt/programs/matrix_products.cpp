// The warp's products of matrices: each element of A and B goes where the PTX ISA's figures put it.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <device/intrinsics.cuh>
#include <vector>

#include "orders.h"

namespace {

using namespace orin::cuda;
using orin::in_every_order;
using orin::run;

unsigned row_of_a(unsigned lane, unsigned i, unsigned n) {
    return lane / 4 + (i / n % 2) * 8;
}
unsigned column_of_a(unsigned lane, unsigned i, unsigned n) {
    return lane % 4 * n + i % n + i / (2 * n) * 4 * n;
}

template <typename Element, typename Sum>
struct Matrices {
    static constexpr unsigned n = 4 / sizeof(Element);
    static constexpr unsigned depth = 8 * n;
    Element a[16][depth];
    Element b[depth][8];
    Sum c[16][8];
};

template <typename Element, typename Sum>
__global__ void multiply(Matrices<Element, Sum> * m) {
    constexpr unsigned n = Matrices<Element, Sum>::n;
    const unsigned lane = threadIdx.x;
    union {
        Element elements[4 * n];
        uint32_t registers[4];
    } a;
    union {
        Element elements[2 * n];
        uint32_t registers[2];
    } b;
    for (unsigned i = 0; i < 4 * n; i++) {
        a.elements[i] = m->a[row_of_a(lane, i, n)][column_of_a(lane, i, n)];
    }
    for (unsigned i = 0; i < 2 * n; i++) {
        b.elements[i] = m->b[lane % 4 * n + i % n + i / n * 4 * n][lane / 4];
    }
    Sum c[4];
    for (unsigned i = 0; i < 4; i++) {
        c[i] = m->c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    }
    if constexpr (sizeof(Element) == 2) {
        mma_f16(c, a.registers, b.registers);
    } else {
        mma_s8(c, a.registers, b.registers);
    }
    for (unsigned i = 0; i < 4; i++) {
        m->c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = c[i];
    }
}

template <typename Element, typename Sum, typename Make>
void check_product(const Make & make) {
    orin::Random random(7);
    in_every_order([&] {
        Matrices<Element, Sum> m;
        double expected[16][8];
        for (auto & row : m.a) {
            for (Element & value : row) {
                value = make(random.below(17) - 8);
            }
        }
        for (auto & row : m.b) {
            for (Element & value : row) {
                value = make(random.below(17) - 8);
            }
        }
        for (unsigned i = 0; i < 16; i++) {
            for (unsigned j = 0; j < 8; j++) {
                m.c[i][j] = static_cast<Sum>(random.below(100));
                expected[i][j] = static_cast<double>(m.c[i][j]);
                for (unsigned k = 0; k < Matrices<Element, Sum>::depth; k++) {
                    expected[i][j] += static_cast<double>(float(m.a[i][k])) * static_cast<double>(float(m.b[k][j]));
                }
            }
        }
        run(multiply<Element, Sum>, 1, 32, 0, &m);
        for (unsigned i = 0; i < 16; i++) {
            for (unsigned j = 0; j < 8; j++) {
                CHECK(static_cast<double>(m.c[i][j]) == expected[i][j]);
            }
        }
    });
}

void products_of_matrices_are_right() {
    check_product<__half, float>([](int value) { return __half(static_cast<float>(value)); });
    check_product<int8_t, int>([](int value) { return static_cast<int8_t>(value); });
}

__global__ void load_rows(uint16_t * out, bool transposed) {
    auto * shared = shared_memory<uint16_t>();
    const unsigned lane = threadIdx.x;
    for (unsigned i = lane; i < 256; i += 32) {
        shared[i] = static_cast<uint16_t>(i);
    }
    __syncwarp();
    uint32_t registers[4];
    if (transposed) {
        load_matrices_transposed(registers, shared + lane * 8);
    } else {
        load_matrices(registers, shared + lane * 8);
    }
    for (unsigned m = 0; m < 4; m++) {
        out[m * 64 + lane * 2] = static_cast<uint16_t>(registers[m]);
        out[m * 64 + lane * 2 + 1] = static_cast<uint16_t>(registers[m] >> 16);
    }
}

void matrices_are_loaded_row_by_row() {
    in_every_order([] {
        std::vector<uint16_t> out(256);
        run(load_rows, 1, 32, 512, out.data(), false);
        for (unsigned i = 0; i < 256; i++) {
            CHECK(out[i] == i);  // lane g, t holds elements 2t, 2t + 1 of row g
        }
    });
}

void matrices_are_loaded_column_by_column() {
    in_every_order([] {
        std::vector<uint16_t> out(256);
        run(load_rows, 1, 32, 512, out.data(), true);
        for (unsigned i = 0; i < 256; i++) {
            CHECK(out[i] == i / 64 * 64 + i % 8 * 8 + i % 64 / 8);  // elements g of rows 2t, 2t + 1
        }
    });
}

}  // namespace

int main() {
    products_of_matrices_are_right();
    matrices_are_loaded_row_by_row();
    matrices_are_loaded_column_by_column();
}
