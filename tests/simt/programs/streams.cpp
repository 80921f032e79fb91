// What streams, events, copies and captured graphs do, at every time at which work may run.
#include <cuda_runtime.h>

#include <cstring>
#include <device/launch.cuh>
#include <functional>
#include <set>
#include <vector>

#include "../../core/check.h"
#include "../stream.h"

namespace {

constexpr uint64_t at_once = 0;
constexpr uint64_t late = 1;
constexpr uint64_t n_schedules = 40;
constexpr int n = 16;

void ok(cudaError_t error) {
    CHECK(error == cudaSuccess);
}

void at_every_time(const std::function<void()> & body) {
    for (uint64_t seed = 0; seed < n_schedules; seed++) {
        simt::set_schedule(seed);
        body();
    }
}

// Values in the device's memory, read by a copy that everything waits for.
class DeviceInts {
   public:
    DeviceInts() {
        ok(cudaMalloc(&memory_, n * sizeof(int)));
        ok(cudaMemset(memory_, 0, n * sizeof(int)));
    }
    ~DeviceInts() { ok(cudaFree(memory_)); }
    DeviceInts(const DeviceInts &) = delete;
    DeviceInts & operator=(const DeviceInts &) = delete;

    int * data() const { return static_cast<int *>(memory_); }
    int first() const {
        int value = -1;
        ok(cudaMemcpy(&value, memory_, sizeof(value), cudaMemcpyDeviceToHost));
        return value;
    }

   private:
    void * memory_ = nullptr;
};

class PinnedInt {
   public:
    PinnedInt() { ok(cudaMallocHost(&memory_, sizeof(int))); }
    ~PinnedInt() { ok(cudaFreeHost(memory_)); }
    PinnedInt(const PinnedInt &) = delete;
    PinnedInt & operator=(const PinnedInt &) = delete;

    int & value() { return *static_cast<int *>(memory_); }

   private:
    void * memory_ = nullptr;
};

class OwnStream {
   public:
    explicit OwnStream(unsigned flags = cudaStreamNonBlocking) { ok(cudaStreamCreateWithFlags(&stream_, flags)); }
    ~OwnStream() { ok(cudaStreamDestroy(stream_)); }
    OwnStream(const OwnStream &) = delete;
    OwnStream & operator=(const OwnStream &) = delete;
    operator cudaStream_t() const { return stream_; }
    void wait() const { ok(cudaStreamSynchronize(stream_)); }

   private:
    cudaStream_t stream_ = nullptr;
};

class OwnEvent {
   public:
    OwnEvent() { ok(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
    ~OwnEvent() { ok(cudaEventDestroy(event_)); }
    OwnEvent(const OwnEvent &) = delete;
    OwnEvent & operator=(const OwnEvent &) = delete;
    operator cudaEvent_t() const { return event_; }

   private:
    cudaEvent_t event_ = nullptr;
};

__global__ void set(int * values, int value) {
    values[threadIdx.x] = value;
}

__global__ void add(int * values, int amount) {
    values[threadIdx.x] += amount;
}

__global__ void copy(int * to, const int * from) {
    to[threadIdx.x] = from[threadIdx.x];
}

void set_to(const DeviceInts & values, int value, cudaStream_t stream) {
    ORIN_LAUNCH(set, 1, n, 0, stream, values.data(), value);
}

// --- when work runs

void work_runs_at_once_or_when_it_is_waited_for() {
    for (const uint64_t seed : {at_once, late}) {
        simt::set_schedule(seed);
        const DeviceInts values;
        const OwnStream stream;
        set_to(values, 7, stream);
        CHECK(values.first() == (seed == at_once ? 7 : 0));
        stream.wait();
        CHECK(values.first() == 7);
    }
}

void work_of_a_stream_runs_in_its_order() {
    at_every_time([] {
        const DeviceInts values;
        const OwnStream stream;
        for (int i = 1; i <= 5; i++) {
            set_to(values, 10 * i, stream);
            ORIN_LAUNCH(add, 1, n, 0, stream, values.data(), i);
        }
        stream.wait();
        CHECK(values.first() == 55);
    });
}

void the_default_stream_waits_for_those_that_wait_for_it() {
    simt::set_schedule(late);
    const DeviceInts values;
    const OwnStream blocking(cudaStreamDefault);
    const OwnStream free;
    set_to(values, 1, blocking);
    CHECK(values.first() == 1);
    set_to(values, 2, free);
    CHECK(values.first() == 1);
    ok(cudaDeviceSynchronize());
    CHECK(values.first() == 2);
}

// What is read in one stream after it was written in another.
int read_across(bool waits) {
    const DeviceInts values;
    const DeviceInts copied;
    const OwnStream writer;
    const OwnStream reader;
    const OwnEvent written;
    set_to(values, 3, writer);
    ok(cudaEventRecord(written, writer));
    if (waits) {
        ok(cudaStreamWaitEvent(reader, written));
    }
    ORIN_LAUNCH(copy, 1, n, 0, reader, copied.data(), values.data());
    set_to(values, 4, writer);  // which the reader need not see
    reader.wait();
    return copied.first();
}

void a_missing_wait_for_an_event_is_seen_at_some_time() {
    std::set<int> seen;
    at_every_time([&] {
        seen.insert(read_across(false));
        const int value = read_across(true);
        CHECK(value == 3 || value == 4);
    });
    CHECK(seen.count(0) == 1 && seen.size() > 1);
}

void an_event_is_done_when_what_was_before_it_is() {
    at_every_time([] {
        const DeviceInts values;
        const OwnStream stream;
        const OwnEvent event;
        CHECK(cudaEventQuery(event) == cudaSuccess);  // never recorded
        set_to(values, 5, stream);
        ok(cudaEventRecord(event, stream));
        set_to(values, 6, stream);
        int n_asked = 0;
        while (cudaEventQuery(event) == cudaErrorNotReady) {
            n_asked++;
        }
        CHECK(n_asked <= 1);
        ok(cudaEventSynchronize(event));
        CHECK(values.first() >= 5);
    });
    simt::set_schedule(late);
    const DeviceInts values;
    const OwnStream stream;
    const OwnEvent event;
    set_to(values, 5, stream);
    ok(cudaEventRecord(event, stream));
    set_to(values, 6, stream);
    ok(cudaEventSynchronize(event));
    CHECK(values.first() == 5);
}

// --- copies

// What arrives when the source is changed after the copy was queued.
int copied_from(int & source, bool waits) {
    const DeviceInts values;
    const OwnStream stream;
    const OwnEvent copied;
    source = 1;
    ok(cudaMemcpyAsync(values.data(), &source, sizeof(int), cudaMemcpyHostToDevice, stream));
    ok(cudaEventRecord(copied, stream));
    if (waits) {
        ok(cudaEventSynchronize(copied));
    }
    source = 2;
    stream.wait();
    return values.first();
}

void a_pinned_buffer_that_is_used_again_too_early_is_seen_at_some_time() {
    std::set<int> seen;
    at_every_time([&] {
        PinnedInt pinned;
        int pageable = 0;
        seen.insert(copied_from(pinned.value(), false));
        CHECK(copied_from(pinned.value(), true) == 1);
        CHECK(copied_from(pageable, false) == 1);
    });
    CHECK(seen == std::set<int>({1, 2}));
}

void what_comes_back_is_there_after_a_wait() {
    simt::set_schedule(late);
    const DeviceInts values;
    const OwnStream stream;
    PinnedInt pinned;
    pinned.value() = 0;
    int pageable = 0;
    set_to(values, 8, stream);
    ok(cudaMemcpyAsync(&pinned.value(), values.data(), sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(pinned.value() == 0);
    ok(cudaMemcpyAsync(&pageable, values.data(), sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(pageable == 8 && pinned.value() == 8);  // a copy to pageable memory waits by itself
}

void rows_are_copied_with_their_strides() {
    at_every_time([] {
        const DeviceInts values;
        const OwnStream stream;
        const std::vector<int> given = {1, 2, 9, 3, 4, 9, 5, 6, 9};
        std::vector<int> back(9, 0);
        const size_t row = 2 * sizeof(int);
        ok(cudaMemcpy2DAsync(values.data(), 2 * row, given.data(), 3 * sizeof(int), row, 3, cudaMemcpyHostToDevice,
                             stream));
        ok(cudaMemcpy2DAsync(back.data(), 3 * sizeof(int), values.data(), 2 * row, row, 3, cudaMemcpyDeviceToHost,
                             stream));
        CHECK(back == std::vector<int>({1, 2, 0, 3, 4, 0, 5, 6, 0}));
    });
}

void copies_that_leave_their_memory_are_refused() {
    const DeviceInts values;
    std::vector<int> host(2 * n);
    const auto copied = [&](void * to, const void * from, size_t bytes, cudaMemcpyKind kind) {
        return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
    };
    const size_t bytes = n * sizeof(int);
    CHECK(copied(values.data(), host.data(), bytes, cudaMemcpyHostToDevice) == cudaSuccess);
    CHECK(copied(values.data(), host.data(), bytes + 1, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    CHECK(copied(host.data(), values.data(), 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    CHECK(copied(values.data(), host.data(), 4, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
    CHECK(copied(values.data(), host.data(), 4, cudaMemcpyDefault) == cudaSuccess);
}

// --- captured graphs

cudaGraphExec_t captured(const OwnStream & stream, const std::function<void()> & work) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    work();
    ok(cudaStreamEndCapture(stream, &graph));
    ok(cudaGraphInstantiate(&executable, graph, 0));
    ok(cudaGraphDestroy(graph));
    return executable;
}

void a_graph_repeats_what_was_launched_and_nothing_that_the_host_did() {
    at_every_time([] {
        const DeviceInts values;
        const OwnStream stream;
        int amount = 1;
        const cudaGraphExec_t graph = captured(stream, [&] {
            ORIN_LAUNCH(add, 1, n, 0, stream, values.data(), amount);
            ORIN_LAUNCH(add, 1, n, 0, stream, values.data(), 10);
        });
        stream.wait();
        CHECK(values.first() == 0);  // recorded, not run
        amount = 1000;
        for (int i = 0; i < 3; i++) {
            ok(cudaGraphLaunch(graph, stream));
        }
        stream.wait();
        CHECK(values.first() == 33);
        ok(cudaGraphExecDestroy(graph));
    });
}

void to_wait_spoils_a_capture() {
    const OwnStream stream;
    cudaGraph_t graph = nullptr;
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated && graph == nullptr);
    ok(cudaStreamSynchronize(stream));
}

}  // namespace

int main() {
    work_runs_at_once_or_when_it_is_waited_for();
    work_of_a_stream_runs_in_its_order();
    the_default_stream_waits_for_those_that_wait_for_it();
    a_missing_wait_for_an_event_is_seen_at_some_time();
    an_event_is_done_when_what_was_before_it_is();
    a_pinned_buffer_that_is_used_again_too_early_is_seen_at_some_time();
    what_comes_back_is_there_after_a_wait();
    rows_are_copied_with_their_strides();
    copies_that_leave_their_memory_are_refused();
    a_graph_repeats_what_was_launched_and_nothing_that_the_host_did();
    to_wait_spoils_a_capture();
    return 0;
}
