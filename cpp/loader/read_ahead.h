// Files that will be mapped, on their way into the page cache while the processor is busy with something else.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "data_file.h"

namespace orin {

class ReadAhead {
   public:
    // Begins to have the system read these files, in order. One that cannot be read is left out: who loads it says so.
    explicit ReadAhead(const std::vector<std::string> & paths);
    ~ReadAhead() { close(); }
    ReadAhead(const ReadAhead &) = delete;
    ReadAhead & operator=(const ReadAhead &) = delete;

    // Asks for no more, and waits for what was asked for.
    void close();

   private:
    struct Part {
        size_t file = 0;
        uint64_t offset = 0;
        uint64_t nbytes = 0;
    };

    void run();

    std::deque<Descriptor> files_;  // which cannot be moved
    std::vector<Part> parts_;
    std::atomic<size_t> n_taken_{0};
    std::atomic<bool> is_closed_{false};
    std::vector<std::thread> threads_;
};

}  // namespace orin
