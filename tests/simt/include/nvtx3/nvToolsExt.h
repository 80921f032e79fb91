// Stands in for the header of the profiler's marks.
#pragma once

inline int nvtxRangePushA(const char *) {
    return 0;
}
inline int nvtxRangePop() {
    return 0;
}
