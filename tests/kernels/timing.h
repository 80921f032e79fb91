// Times of launches, for scripts/gpu_check: of many in one CUDA graph, so that the host does not show.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace orin::kernels {

// Device memory that is as large as it has to be to be read from memory, and not from a cache.
class Memory {
   public:
    explicit Memory(size_t bytes);
    ~Memory();
    Memory(Memory && other) noexcept;
    Memory & operator=(Memory &&) = delete;

    // Over and over what lies in the host's memory.
    void fill(const void * pattern, size_t bytes);
    void zero();
    template <typename Value>
    Value * at(size_t offset = 0) const {
        return reinterpret_cast<Value *>(static_cast<uint8_t *>(memory_) + offset);
    }

   private:
    void * memory_ = nullptr;
    size_t bytes_;
};

using Launch = std::function<cudaError_t(cudaStream_t)>;

// Microseconds of one launch, the mean of all of them in a graph; a value for each repetition of the graph. In the
// emulation by the host's clock.
std::vector<double> time_launches(const std::vector<Launch> & launches, int repetitions);

}  // namespace orin::kernels
