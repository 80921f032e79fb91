// Prints binary16 for Python to compare: the value of every bit pattern, then the bits of each double on stdin, then
// products and sums of the halves among them.
#include <cuda_fp16.h>

#include <cstdio>

int main() {
    for (unsigned bits = 0; bits < 65536; bits++) {
        std::printf("%a\n", static_cast<double>(__half2float(__ushort_as_half(static_cast<unsigned short>(bits)))));
    }
    double value = 0.0;
    __half before(0.0f);
    while (std::fread(&value, sizeof(value), 1, stdin) == 1) {
        const __half rounded = simt::half_of(value);
        std::printf("%u %u %u\n", unsigned{rounded.bits}, unsigned{__hadd(before, rounded).bits},
                    unsigned{__hmul(before, rounded).bits});
        before = rounded;
    }
}
