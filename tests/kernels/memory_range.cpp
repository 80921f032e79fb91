// Memory that grows in a reserved range.
#include "memory_range.h"

#include <cuda_runtime.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <utility>

#include "bind_kernels.h"
#include "device_array.h"

#ifdef ORIN_EMULATED
#include <cuda.h>

#include "../simt/device_memory.h"
#endif

namespace py = pybind11;

namespace orin::kernels {

namespace {

constexpr int32_t garbage = -1;

// Each granule holds its own number while it has memory.
class Marks {
   public:
    explicit Marks(const cuda::MemoryRange & range) : range_(range) {}

    void write_new() {
        for (; n_ < count(); n_++) {
            for (char * at : ends(n_)) {
                copy(at, &n_, cudaMemcpyHostToDevice);
            }
        }
    }

    // Whether what was written before is still there.
    bool are_there() {
        n_ = std::min(n_, count());
        for (int32_t i = 0; i < n_; i++) {
            for (char * at : ends(i)) {
                int32_t mark = garbage;
                copy(&mark, at, cudaMemcpyDeviceToHost);
                if (mark != i) {
                    return false;
                }
            }
        }
        return true;
    }

   private:
    int32_t count() const { return static_cast<int32_t>(range_.committed_bytes() / range_.granule_bytes()); }
    std::vector<char *> ends(int32_t i) const {
        char * first = range_.data() + static_cast<size_t>(i) * range_.granule_bytes();
        return {first, first + range_.granule_bytes() - sizeof(int32_t)};
    }
    static void copy(void * to, const void * from, cudaMemcpyKind kind) {
        check(cudaMemcpyAsync(to, from, sizeof(int32_t), kind, nullptr), "copy");
        check(cudaStreamSynchronize(nullptr), "copy");
    }

    const cuda::MemoryRange & range_;
    int32_t n_ = 0;
};

// Each step is an amount of memory, in quarters of a granule, and whether it is committed or all behind it is given
// back. Returns the granules there are after each, what went wrong and whether their content is as it was. `total` is
// the emulated device's memory in granules, `fault` a call of the driver that always fails.
py::list memory_range(int32_t n_granules, const std::vector<std::pair<int32_t, bool>> & steps, int32_t total,
                      const std::string & fault) {
#ifdef ORIN_EMULATED
    simt::DeviceMemory & memory = simt::DeviceMemory::instance();
    const size_t total_before = memory.total_bytes();
    const size_t used_before = memory.used_bytes();
    memory.set_total_bytes(used_before + static_cast<size_t>(total) * simt::memory_granule);
    simt::driver_fault = {fault.c_str(), CUDA_ERROR_INVALID_VALUE};
#endif
    py::list result;
    {
        cuda::MemoryRange range;
        constexpr size_t largest_granule = 2 << 20;
        const std::string refused = range.reserve(0, static_cast<size_t>(n_granules) * largest_granule);
        if (!refused.empty()) {
            result.append(py::make_tuple(0, refused, true));
        }
        Marks marks(range);
        for (size_t i = 0; refused.empty() && i < steps.size(); i++) {
            const size_t bytes = static_cast<size_t>(steps[i].first) * range.granule_bytes() / 4;
            std::string problem;
            if (steps[i].second) {
                problem = range.commit(bytes);
            } else {
                range.give_back(bytes);
            }
            const bool kept = marks.are_there();
            marks.write_new();
            result.append(py::make_tuple(range.committed_bytes() / range.granule_bytes(), problem, kept));
        }
    }
#ifdef ORIN_EMULATED
    memory.set_total_bytes(total_before);
    simt::driver_fault = {};
    if (memory.used_bytes() != used_before) {
        throw std::logic_error("memory was not given back");
    }
#endif
    return result;
}

// What the probe finds where a call of the driver always fails; "": none does.
std::string probe_memory_range(const std::string & fault) {
#ifdef ORIN_EMULATED
    simt::driver_fault = {fault.c_str(), CUDA_ERROR_INVALID_VALUE};
    const std::string found = cuda::probe_memory_range(0);
    simt::driver_fault = {};
    return found;
#else
    return fault.empty() ? cuda::probe_memory_range(0) : throw std::invalid_argument("a GPU cannot be told to fail");
#endif
}

}  // namespace

void bind_memory_range(py::module_ & module) {
    module.def("memory_range", &memory_range, py::arg("n_granules"), py::arg("steps"), py::arg("total"),
               py::arg("fault"));
    module.def("probe_memory_range", &probe_memory_range, py::arg("fault"));
}

}  // namespace orin::kernels
