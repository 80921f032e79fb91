// Worker threads that do numbered work ahead of one consumer, who takes it in order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace orin {

// Item i is worked on in slot i % n_slots, by whichever thread is free, once the consumer has given back item
// i - n_slots: so at most n_slots items are under way, done, or held by the consumer. The oldest item that is not done
// always has its slot, so nothing waits for ever.
class Pipeline {
   public:
    // Called by the workers. An exception stops everything and is thrown to the consumer.
    using Work = std::function<void(size_t item, size_t slot)>;

    // Starts min(n_threads, n_slots, n_items) threads, or as many of them as the system allows, but one at least.
    Pipeline(size_t n_items, size_t n_slots, size_t n_threads, Work work);
    // Waits for the items that are being worked on; no other is begun.
    ~Pipeline();
    Pipeline(const Pipeline &) = delete;
    Pipeline & operator=(const Pipeline &) = delete;

    // For the consumer's thread. The next item in order as soon as it is done; none where that takes longer, or all
    // have been taken. Throws what a worker threw first.
    std::optional<size_t> take(std::chrono::milliseconds longest);
    bool is_at_end() const { return n_taken_ == n_items_; }
    // Gives back the slot of the oldest item that was taken and not given back.
    void release();
    size_t n_held() const { return n_taken_ - n_released_; }

   private:
    void run();
    void stop(std::exception_ptr error);

    const size_t n_items_;
    const size_t n_slots_;
    const Work work_;

    size_t n_taken_ = 0;  // written by the consumer alone, and so is the next one, which workers read under the mutex
    size_t n_released_ = 0;

    std::mutex mutex_;
    std::condition_variable may_begin_;
    std::condition_variable is_done_;
    size_t n_begun_ = 0;
    std::vector<bool> done_;  // by slot
    bool stopped_ = false;
    std::exception_ptr error_;

    std::vector<std::thread> threads_;
};

}  // namespace orin
