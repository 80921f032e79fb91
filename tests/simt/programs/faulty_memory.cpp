// Kernels that reach for memory that is not theirs: the sanitizers have to end this program. The argument says which.
#include <cuda_runtime.h>

#include <device/launch.cuh>
#include <string>

namespace {

using namespace orin::cuda;

__global__ void read(const float * values, float * out, int i) {
    out[0] = values[i];
}

__global__ void write(float * values, int i) {
    values[i] = 1.0f;
}

__global__ void write_shared(int i) {
    shared_memory<float>()[i] = 1.0f;
}

__global__ void read_vector(const float * values, float * out, int i) {
    out[0] = reinterpret_cast<const float4 *>(values + i)->w;
}

__global__ void shift(int * out, int bits) {
    out[0] = 1 << bits;
}

__device__ int deep(int n) {
    volatile char frame[4096] = {};
    return n == 0 ? frame[0] : deep(n - 1) + frame[1];
}

__global__ void recurse(int * out, int n) {
    out[0] = deep(n);
}

}  // namespace

int main(int, char ** arguments) {
    const std::string wanted = arguments[1];
    void * memory = nullptr;
    if (cudaMalloc(&memory, 10 * sizeof(float)) != cudaSuccess) {
        return 1;
    }
    auto * values = static_cast<float *>(memory);
    float out = 0.0f;
    int integer = 0;
    if (wanted == "none") {
        ORIN_LAUNCH(read, 1, 1, 0, nullptr, values, &out, 9);
        ORIN_LAUNCH(write, 1, 1, 0, nullptr, values, 9);
        ORIN_LAUNCH(write_shared, 1, 1, 40, nullptr, 9);
        ORIN_LAUNCH(read_vector, 1, 1, 0, nullptr, values, &out, 4);
        ORIN_LAUNCH(shift, 1, 1, 0, nullptr, &integer, 30);
        ORIN_LAUNCH(recurse, 1, 1, 0, nullptr, &integer, 5);
    } else if (wanted == "read") {
        ORIN_LAUNCH(read, 1, 1, 0, nullptr, values, &out, 10);
    } else if (wanted == "write") {
        ORIN_LAUNCH(write, 1, 1, 0, nullptr, values, -1);
    } else if (wanted == "shared") {
        ORIN_LAUNCH(write_shared, 1, 1, 40, nullptr, 10);
    } else if (wanted == "misaligned") {
        ORIN_LAUNCH(read_vector, 1, 1, 0, nullptr, values, &out, 1);
    } else if (wanted == "vector") {
        ORIN_LAUNCH(read_vector, 1, 1, 0, nullptr, values, &out, 8);
    } else if (wanted == "shift") {
        ORIN_LAUNCH(shift, 1, 1, 0, nullptr, &integer, 32);
    } else if (wanted == "stack") {
        ORIN_LAUNCH(recurse, 1, 1, 0, nullptr, &integer, 100);
    }
    cudaFree(memory);
    return 0;
}
