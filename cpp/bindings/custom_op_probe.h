// Custom ops through the backends and through the dispatch that the patched CUDA backend calls.
#pragma once

#include <vector>

namespace orin {

// scale * x + bias as an affine node on the CPU, or on the first GPU.
std::vector<float> run_affine(const std::vector<float> & x, float scale, float bias, int n_threads, bool gpu);

struct DispatchReport {
    bool supports_known = false;       // a node whose function has a launcher
    bool supports_other_type = false;  // the same with a type the launcher does not take
    bool supports_unknown = false;     // a custom node whose function has none
    bool supports_other_op = false;    // a node that is not a custom op
    int launch_unknown = 0;            // cudaError_t
    int launch_known = -1;
    bool second_launcher_fits = false;  // whether the function could be given another launcher
    std::vector<float> launched;        // result of the known node
};

// What the CUDA backend's two hook calls answer, with a launcher that works on host memory.
DispatchReport probe_custom_dispatch(const std::vector<float> & x, float scale, float bias);

}  // namespace orin
