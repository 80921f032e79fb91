// NumPy arrays as a kernel sees them: in the GPU's memory, or what stands for it.
#pragma once

#include <cuda_runtime.h>
#include <pybind11/numpy.h>

#include <stdexcept>
#include <string>

namespace orin::kernels {

inline void check(cudaError_t error, const char * what) {
    if (error != cudaSuccess) {
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
    }
}

// A copy of the array while it lives; what kernels changed comes back with read().
template <typename Value>
class DeviceArray {
   public:
    using Array = pybind11::array_t<Value, pybind11::array::c_style | pybind11::array::forcecast>;

    explicit DeviceArray(Array host) : host_(std::move(host)) {
        check(cudaMalloc(&memory_, bytes()), "cudaMalloc");
        check(cudaMemcpyAsync(memory_, host_.data(), bytes(), cudaMemcpyHostToDevice, nullptr), "copy to the device");
    }
    ~DeviceArray() { cudaFree(memory_); }
    DeviceArray(const DeviceArray &) = delete;
    DeviceArray & operator=(const DeviceArray &) = delete;

    Value * data() { return static_cast<Value *>(memory_); }
    int64_t size() const { return host_.size(); }

    // After all work: also where an error of a kernel shows.
    Array read() const {
        Array result(std::vector<pybind11::ssize_t>(host_.shape(), host_.shape() + host_.ndim()));
        check(cudaMemcpyAsync(result.mutable_data(), memory_, bytes(), cudaMemcpyDeviceToHost, nullptr),
              "copy from the device");
        check(cudaStreamSynchronize(nullptr), "kernel");
        return result;
    }

   private:
    size_t bytes() const { return static_cast<size_t>(host_.nbytes()); }

    Array host_;
    void * memory_ = nullptr;
};

}  // namespace orin::kernels
