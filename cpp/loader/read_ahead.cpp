#include "read_ahead.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <system_error>

#include "populate.h"

namespace orin {
namespace {

constexpr uint64_t part_bytes = 4u << 20;
constexpr size_t n_threads = 2;  // so that a disk has the next part to read when it ends one

// Whether the first, the middle and the last byte are in the page cache, and so, most likely, is what lies between.
// mincore() would say so of all bytes of other users' files.
bool is_cached(int file, uint64_t offset, uint64_t nbytes) {
    for (const uint64_t at : {offset, offset + nbytes / 2, offset + nbytes - 1}) {
        char byte = 0;
        const iovec to{&byte, 1};
        if (preadv2(file, &to, 1, static_cast<off_t>(at), RWF_NOWAIT) != 1) {
            return false;
        }
    }
    return true;
}

// A fault in a mapping reads what is around it, and puts it into pages as large as the file system can have, which cost
// less time here, and again where the file is mapped to be used. POSIX_FADV_WILLNEED would have small ones.
void read(int file, uint64_t offset, uint64_t nbytes) {
    void * const mapped = mmap(nullptr, nbytes, PROT_READ, MAP_SHARED, file, static_cast<off_t>(offset));
    if (mapped == MAP_FAILED) {
        return;
    }
    const bool is_read = populate(mapped, nbytes);
    munmap(mapped, nbytes);
    if (!is_read) {  // the kernel is older than 5.14
        posix_fadvise(file, static_cast<off_t>(offset), static_cast<off_t>(nbytes), POSIX_FADV_WILLNEED);
    }
}

}  // namespace

ReadAhead::ReadAhead(const std::vector<std::string> & paths) {
    for (const std::string & path : paths) {
        const Descriptor & file = files_.emplace_back(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
        struct stat status{};
        if (file.number() < 0 || fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) {
            continue;
        }
        const auto size = static_cast<uint64_t>(status.st_size);
        for (uint64_t offset = 0; offset < size; offset += part_bytes) {
            parts_.push_back({files_.size() - 1, offset, std::min(part_bytes, size - offset)});
        }
    }
    for (size_t i = 0; i < std::min(n_threads, parts_.size()); ++i) {
        try {
            threads_.emplace_back([this] { run(); });
        } catch (const std::system_error &) {  // no more threads are to be had: the load does without
            break;
        }
    }
}

void ReadAhead::run() {
    for (size_t i = n_taken_++; i < parts_.size() && !is_closed_; i = n_taken_++) {
        const Part & part = parts_[i];
        const int file = files_[part.file].number();
        if (!is_cached(file, part.offset, part.nbytes)) {
            read(file, part.offset, part.nbytes);
        }
    }
}

void ReadAhead::close() {
    is_closed_ = true;
    for (std::thread & thread : threads_) {
        thread.join();
    }
    threads_.clear();
}

}  // namespace orin
