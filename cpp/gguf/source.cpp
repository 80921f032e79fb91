#include "source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "error.h"

namespace orin::gguf {

namespace {

[[noreturn]] void fail_open(int code) {
    if (code == ENOENT) {
        fail({}, "there is no such file", Advice::none);
    }
    fail({}, text("cannot be opened (", std::strerror(code), ")"), Advice::none);
}

}  // namespace

FileSource::FileSource(const std::string & path) {
    // O_NONBLOCK: opening a pipe for reading would otherwise wait for a writer.
    descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) {
        fail_open(errno);
    }
    struct stat status{};
    const bool known = fstat(descriptor_, &status) == 0;
    if (!known || !S_ISREG(status.st_mode)) {
        close(descriptor_);
        if (known && S_ISDIR(status.st_mode)) {
            fail({}, "is a directory: give the .gguf file in it", Advice::none);
        }
        fail({}, "is not a regular file: a model cannot be read from a pipe or a device", Advice::none);
    }
    size_ = static_cast<uint64_t>(status.st_size);
}

FileSource::~FileSource() {
    close(descriptor_);
}

size_t FileSource::read_at(uint64_t offset, void * to, size_t n) const {
    size_t done = 0;
    while (done < n) {
        const ssize_t got =
            pread(descriptor_, static_cast<char *>(to) + done, n - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            fail({}, text("cannot be read at byte ", offset + done, " (", std::strerror(errno), ")"), Advice::none);
        }
        if (got == 0) {
            break;
        }
        done += static_cast<size_t>(got);
    }
    return done;
}

size_t MemorySource::read_at(uint64_t offset, void * to, size_t n) const {
    if (offset >= size_) {
        return 0;
    }
    const size_t there = std::min(n, size_ - static_cast<size_t>(offset));
    std::memcpy(to, bytes_ + offset, there);
    return there;
}

}  // namespace orin::gguf
