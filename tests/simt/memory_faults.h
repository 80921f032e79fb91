// Says what happened when the process is about to end because of device memory.
#pragma once

namespace simt {

// From now on. What handled the signal before goes on after the line is written.
void report_memory_faults();

}  // namespace simt
