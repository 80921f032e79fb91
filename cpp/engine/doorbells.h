// File descriptors that become readable when something was handed out: for event loops, which cannot wait for threads.
#pragma once

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace orin {

class Doorbells {
   public:
    // An eventfd of the caller's, open until it was removed.
    void add(int fd) {
        const std::lock_guard lock(mutex_);
        fds_.push_back(fd);
        are_there_ = true;
    }

    void remove(int fd) {
        const std::lock_guard lock(mutex_);
        fds_.erase(std::remove(fds_.begin(), fds_.end(), fd), fds_.end());
        are_there_ = !fds_.empty();
    }

    void ring() {
        if (!are_there_) {
            return;
        }
        const std::lock_guard lock(mutex_);
        for (const int fd : fds_) {
            eventfd_write(fd, 1);
        }
    }

   private:
    std::mutex mutex_;
    std::vector<int> fds_;
    std::atomic<bool> are_there_{false};
};

}  // namespace orin
