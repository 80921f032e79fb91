// Failures that a test asks for. They end as a failed call of CUDA does in ggml: in its abort, with what it logs
// before.
#pragma once

namespace emulated_gpu {

enum class Failure {
    none,
    next_graph,  // the next graph that is computed
    lost,        // all that waits for the device, and it does not tell its memory any more
};

void set_failure(Failure failure);
bool is_lost();
void before_graph();
void before_waiting();

}  // namespace emulated_gpu
