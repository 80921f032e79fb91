// Names a stretch of time for the profilers of the GPU (NVTX). Built without CUDA it does nothing.
#pragma once

#ifdef ORIN_CUDA
#include <nvtx3/nvToolsExt.h>
#endif

namespace orin {

class StepRange {
   public:
#ifdef ORIN_CUDA
    explicit StepRange(const char * name) { nvtxRangePushA(name); }
    ~StepRange() { nvtxRangePop(); }
#else
    explicit StepRange(const char *) {}
    ~StepRange() {}
#endif
    StepRange(const StepRange &) = delete;
    StepRange & operator=(const StepRange &) = delete;
};

}  // namespace orin
