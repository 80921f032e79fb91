// What lies behind the runtime's handles.
#pragma once

#include <memory>

#include "include/runtime_api.h"
#include "stream.h"

struct CUstream_st {
    std::shared_ptr<simt::Stream> stream;
    bool was_queried = false;
};

struct CUevent_st {
    simt::Mark mark;
    bool was_queried = false;
};

struct CUgraph_st {
    simt::Recording work;
};

struct CUgraphExec_st {
    simt::Recording work;
};

namespace simt {

// Null for the default stream.
const std::shared_ptr<Stream> & stream_of(cudaStream_t handle);

// Whether the device says that it is part of the host's chip, as the board's is.
void set_integrated(bool is_integrated);
bool is_integrated();

// What may not happen while a stream is captured; the capture is lost.
bool is_captured(const std::shared_ptr<Stream> & stream);

}  // namespace simt
