// Rows that are computed one apart from another, on several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace orin {

// Calls work(row) for each of n rows, in any order, on up to n_threads threads; the caller's is one of them. The first
// exception is thrown once all threads have ended.
template <typename Work>
void rows_in_threads(int64_t n, int32_t n_threads, const Work & work) {
    std::atomic<int64_t> next{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
    const auto take_rows = [&] {
        try {
            for (int64_t row = next++; row < n; row = next++) {
                work(row);
            }
        } catch (...) {
            next = n;
            const std::lock_guard<std::mutex> lock(failure_mutex);
            failure = failure ? failure : std::current_exception();
        }
    };
    std::vector<std::thread> others;
    try {
        for (int64_t i = 1; i < n_threads && i < n; i++) {
            others.emplace_back(take_rows);
        }
    } catch (const std::system_error &) {  // no more threads here: those that there are do it
    }
    take_rows();
    for (std::thread & other : others) {
        other.join();
    }
    if (failure) {
        std::rethrow_exception(failure);
    }
}

}  // namespace orin
