// The runtime's streams, events and graphs.
#include <utility>

#include "counters.h"
#include "runtime_handles.h"

namespace simt {

const std::shared_ptr<Stream> & stream_of(cudaStream_t handle) {
    static const std::shared_ptr<Stream> none;
    if (handle == nullptr || handle == cudaStreamLegacy) {
        return none;
    }
    return handle == cudaStreamPerThread ? own_stream() : handle->stream;
}

bool is_captured(const std::shared_ptr<Stream> & stream) {
    if (stream == nullptr || !stream->recording) {
        return false;
    }
    stream->capture_failed = true;
    return true;
}

void enqueue_in(cudaStream_t stream, const char * name, std::function<void()> run) {
    enqueue(stream_of(stream), {name, std::move(run)});
}

namespace {

// Whoever asks a second time has waited long enough.
cudaError_t query(const Mark & mark, bool & was_queried) {
    const DeviceLock lock(device_lock());
    if (!is_done(mark) && !std::exchange(was_queried, true)) {
        return cudaErrorNotReady;
    }
    was_queried = false;
    finish(mark);
    return cudaSuccess;
}

}  // namespace
}  // namespace simt

using namespace simt;

cudaError_t cudaStreamCreate(cudaStream_t * stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t * stream, unsigned flags) {
    return runtime_call([&] {
        *stream = new CUstream_st{make_stream(flags != cudaStreamNonBlocking)};
        return cudaSuccess;
    });
}

// What is queued is done, as the runtime promises.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return runtime_call([&] {
        finish(mark(stream->stream));
        delete stream;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    return runtime_call([&] {
        const std::shared_ptr<Stream> & stream = stream_of(handle);
        if (is_captured(stream)) {
            return cudaErrorStreamCaptureUnsupported;
        }
        count("stream_synchronizes");
        finish(mark(stream));
        return cudaSuccess;
    });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
    return runtime_call([&] {
        static bool of_default = false;
        const std::shared_ptr<Stream> & stream = stream_of(handle);
        const bool is_own = handle != nullptr && handle != cudaStreamLegacy && handle != cudaStreamPerThread;
        return query(mark(stream), is_own ? handle->was_queried : of_default);
    });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    return runtime_call([&] {
        wait_in(stream_of(stream), event->mark);
        return cudaSuccess;
    });
}

cudaError_t cudaEventCreate(cudaEvent_t * event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t * event, unsigned) {
    return runtime_call([&] {
        *event = new CUevent_st;
        return cudaSuccess;
    });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return runtime_call([&] {
        delete event;
        return cudaSuccess;
    });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return runtime_call([&] {
        const DeviceLock lock(device_lock());
        event->mark = mark(stream_of(stream));
        event->was_queried = false;
        return cudaSuccess;
    });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return runtime_call([&] {
        count("event_synchronizes");
        finish(event->mark);
        return cudaSuccess;
    });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return runtime_call([&] { return query(event->mark, event->was_queried); });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
    return runtime_call([&] {
        const DeviceLock lock(device_lock());
        const std::shared_ptr<Stream> & stream = stream_of(handle);
        if (stream == nullptr || stream->recording) {
            return cudaErrorStreamCaptureUnsupported;
        }
        stream->recording = std::make_unique<Recording>();
        stream->capture_failed = false;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t * graph) {
    return runtime_call([&] {
        const DeviceLock lock(device_lock());
        const std::shared_ptr<Stream> & stream = stream_of(handle);
        *graph = nullptr;
        if (stream == nullptr || !stream->recording) {
            return cudaErrorInvalidValue;
        }
        const auto recording = std::move(stream->recording);
        if (stream->capture_failed) {
            return cudaErrorStreamCaptureInvalidated;
        }
        *graph = new CUgraph_st{std::move(*recording)};
        return cudaSuccess;
    });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus * status) {
    return runtime_call([&] {
        const DeviceLock lock(device_lock());
        const std::shared_ptr<Stream> & stream = stream_of(handle);
        *status = stream != nullptr && stream->recording ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t * executable, cudaGraph_t graph, unsigned long long) {
    return runtime_call([&] {
        *executable = new CUgraphExec_st{graph->work};
        return cudaSuccess;
    });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    return runtime_call([&] {
        const Batch batch(stream_of(stream));
        for (const Work & work : executable->work) {
            enqueue(stream_of(stream), work);
        }
        return cudaSuccess;
    });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    return runtime_call([&] {
        delete executable;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return runtime_call([&] {
        delete graph;
        return cudaSuccess;
    });
}
