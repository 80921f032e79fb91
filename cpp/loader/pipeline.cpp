#include "pipeline.h"

#include <algorithm>
#include <system_error>

namespace orin {

Pipeline::Pipeline(size_t n_items, size_t n_slots, size_t n_threads, Work work)
    : n_items_(n_items), n_slots_(std::max<size_t>(n_slots, 1)), work_(std::move(work)), done_(n_slots_, false) {
    const size_t wanted = std::min({std::max<size_t>(n_threads, 1), n_slots_, n_items_});
    threads_.reserve(wanted);
    while (threads_.size() < wanted) {
        try {
            threads_.emplace_back([this] { run(); });
        } catch (const std::system_error &) {
            if (threads_.empty()) {
                throw;
            }
            return;
        }
    }
}

Pipeline::~Pipeline() {
    stop(nullptr);
    for (std::thread & thread : threads_) {
        thread.join();
    }
}

std::optional<size_t> Pipeline::take(std::chrono::milliseconds longest) {
    if (is_at_end()) {
        return std::nullopt;
    }
    std::unique_lock lock(mutex_);
    const size_t slot = n_taken_ % n_slots_;
    is_done_.wait_for(lock, longest, [&] { return error_ != nullptr || done_[slot]; });
    if (error_ != nullptr) {
        std::rethrow_exception(error_);
    }
    if (!done_[slot]) {
        return std::nullopt;
    }
    done_[slot] = false;
    return n_taken_++;
}

void Pipeline::release() {
    {
        const std::lock_guard lock(mutex_);
        n_released_++;
    }
    may_begin_.notify_one();
}

void Pipeline::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        may_begin_.wait(lock, [&] { return stopped_ || n_begun_ == n_items_ || n_begun_ < n_released_ + n_slots_; });
        if (stopped_ || n_begun_ == n_items_) {
            return;
        }
        const size_t item = n_begun_++;
        lock.unlock();
        try {
            work_(item, item % n_slots_);
        } catch (...) {
            stop(std::current_exception());
            return;
        }
        lock.lock();
        done_[item % n_slots_] = true;
        if (n_begun_ == n_items_) {
            may_begin_.notify_all();  // who waits for a slot need not any more
        }
        is_done_.notify_one();
    }
}

void Pipeline::stop(std::exception_ptr error) {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        if (error_ == nullptr) {
            error_ = std::move(error);
        }
    }
    may_begin_.notify_all();
    is_done_.notify_all();
}

}  // namespace orin
