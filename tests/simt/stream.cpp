#include "stream.h"

#include <algorithm>
#include <exception>
#include <random>
#include <utility>

#include "device_memory.h"

namespace simt {
namespace {

constexpr uint64_t at_once = 0;
constexpr uint64_t late = 1;
constexpr uint64_t overtaking = UINT64_MAX;

struct Device {
    std::recursive_mutex lock;
    uint64_t seed = at_once;
    std::mt19937_64 random;
    std::vector<std::weak_ptr<Stream>> streams;
    int n_batches = 0;
};

Device & device() {
    static auto * instance = new Device;  // never destroyed: others end later
    return *instance;
}

void run_first(Stream & stream) {
    const Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    struct Done {
        ~Done() { n++; }
        uint64_t & n;
    } const done{stream.n_done};
    const DeviceRuns running(work.name);
    work.run();
}

void run_until(Stream & stream, uint64_t n) {
    if (stream.n_done >= n) {
        return;
    }
    const DeviceRuns running("what is queued");
    while (stream.n_done < n && !stream.queue.empty()) {
        run_first(stream);
    }
}

std::vector<std::shared_ptr<Stream>> all_streams() {
    auto & known = device().streams;
    known.erase(std::remove_if(known.begin(), known.end(), [](const auto & stream) { return stream.expired(); }),
                known.end());
    std::vector<std::shared_ptr<Stream>> result;
    for (const auto & stream : known) {
        result.push_back(stream.lock());
    }
    return result;
}

void run_some() {
    Device & gpu = device();
    if (gpu.random() % 4 != 0) {
        return;
    }
    const auto streams = all_streams();
    Stream & stream = *streams[gpu.random() % streams.size()];
    run_until(stream, stream.n_done + gpu.random() % (stream.queue.size() + 1));
}

bool is_another_behind(const Stream & stream) {
    const auto streams = all_streams();
    return std::any_of(streams.begin(), streams.end(),
                       [&](const auto & other) { return other.get() != &stream && !other->queue.empty(); });
}

void run_unasked(Stream & stream) {
    const Device & gpu = device();
    if (gpu.n_batches > 0 || gpu.seed == late || (gpu.seed == overtaking && !is_another_behind(stream))) {
        return;
    }
    if (gpu.seed == at_once || gpu.seed == overtaking) {
        run_until(stream, stream.n_queued);
    } else {
        run_some();
    }
}

}  // namespace

std::recursive_mutex & device_lock() {
    return device().lock;
}

void set_schedule(uint64_t seed) {
    const DeviceLock lock(device_lock());
    finish_all();
    device().seed = seed;
    device().random.seed(seed);
}

std::shared_ptr<Stream> make_stream(bool waits_for_default) {
    const DeviceLock lock(device_lock());
    auto stream = std::make_shared<Stream>();
    stream->waits_for_default = waits_for_default;
    device().streams.push_back(stream);
    return stream;
}

const std::shared_ptr<Stream> & own_stream() {
    thread_local const std::shared_ptr<Stream> stream = make_stream(true);
    return stream;
}

void enqueue(const std::shared_ptr<Stream> & stream, Work work) {
    const DeviceLock lock(device_lock());
    if (stream == nullptr) {
        for (const auto & other : all_streams()) {
            if (other->waits_for_default) {
                run_until(*other, other->n_queued);
            }
        }
        const DeviceRuns running(work.name);
        work.run();
    } else if (stream->recording) {
        stream->recording->push_back(std::move(work));
    } else {
        stream->queue.push_back(std::move(work));
        stream->n_queued++;
        run_unasked(*stream);
    }
}

Mark mark(const std::shared_ptr<Stream> & stream) {
    const DeviceLock lock(device_lock());
    return stream == nullptr ? Mark{} : Mark{stream, stream->n_queued};
}

void wait_in(const std::shared_ptr<Stream> & stream, const Mark & mark) {
    const DeviceLock lock(device_lock());
    if (mark.stream == stream || is_done(mark)) {
        return;
    }
    enqueue(stream, {"a wait for an event", [mark] { run_until(*mark.stream, mark.n_queued); }});
}

bool is_done(const Mark & mark) {
    const DeviceLock lock(device_lock());
    return mark.stream == nullptr || mark.stream->n_done >= mark.n_queued;
}

void finish(const Mark & mark) {
    const DeviceLock lock(device_lock());
    if (!is_done(mark)) {
        run_until(*mark.stream, mark.n_queued);
    }
}

void finish_all() {
    const DeviceLock lock(device_lock());
    for (const auto & stream : all_streams()) {
        run_until(*stream, stream->n_queued);
    }
}

Batch::Batch(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {
    device_lock().lock();
    device().n_batches++;
}

Batch::~Batch() noexcept(false) {
    const DeviceLock lock(device_lock());
    device_lock().unlock();
    if (--device().n_batches == 0 && std::uncaught_exceptions() == 0) {
        run_unasked(*stream_);
    }
}

}  // namespace simt
