// Streams, events and captured graphs: queues of work, run by whoever has to wait for it.
//
// The seed says when work runs that nobody waits for yet. 0: at once; 1: as late as it may; UINT64_MAX: at once where
// it overtakes another stream's, else late; others: some of it, at random times. All functions take the device's lock:
// one thread at a time is the device.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace simt {

struct Work {
    const char * name;  // lives for ever
    std::function<void()> run;
};

using Recording = std::vector<Work>;

struct Stream {
    bool waits_for_default = true;  // and the default stream for it
    std::deque<Work> queue;
    uint64_t n_queued = 0;
    uint64_t n_done = 0;
    std::unique_ptr<Recording> recording;  // while it is captured
    bool capture_failed = false;
};

// The work that was queued in a stream when it was recorded.
struct Mark {
    std::shared_ptr<Stream> stream;  // null: never recorded
    uint64_t n_queued = 0;
};

std::recursive_mutex & device_lock();
using DeviceLock = std::lock_guard<std::recursive_mutex>;

void set_schedule(uint64_t seed);

std::shared_ptr<Stream> make_stream(bool waits_for_default);
// Of the thread.
const std::shared_ptr<Stream> & own_stream();

// Null is the default stream, which runs its work at once, after that of the streams that wait for it.
void enqueue(const std::shared_ptr<Stream> & stream, Work work);
Mark mark(const std::shared_ptr<Stream> & stream);
void wait_in(const std::shared_ptr<Stream> & stream, const Mark & mark);
bool is_done(const Mark & mark);
// Runs what is missing. Throws what work throws.
void finish(const Mark & mark);
void finish_all();

// While one lives nothing runs that nobody waits for, so that device memory is opened once for much work.
class Batch {
   public:
    explicit Batch(std::shared_ptr<Stream> stream);
    ~Batch() noexcept(false);
    Batch(const Batch &) = delete;
    Batch & operator=(const Batch &) = delete;

   private:
    std::shared_ptr<Stream> stream_;
};

}  // namespace simt
