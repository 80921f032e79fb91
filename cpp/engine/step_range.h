// Names a stretch of time of a thread for the profilers of the GPU (NVTX). Built without CUDA it does nothing.
#pragma once

#ifdef ORIN_CUDA
#include <nvtx3/nvToolsExt.h>
#endif

namespace orin {

// Ranges of a thread lie within one another: pop_range() ends the one that was begun last.
#ifdef ORIN_CUDA
inline void push_range(const char * name) {
    nvtxRangePushA(name);
}
inline void pop_range() {
    nvtxRangePop();
}
#else
inline void push_range(const char *) {}
inline void pop_range() {}
#endif

class StepRange {
   public:
    explicit StepRange(const char * name) { push_range(name); }
    ~StepRange() { pop_range(); }
    StepRange(const StepRange &) = delete;
    StepRange & operator=(const StepRange &) = delete;
};

}  // namespace orin
