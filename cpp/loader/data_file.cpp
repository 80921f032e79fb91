#include "data_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "../gguf/error.h"

namespace orin {
namespace {

constexpr uint64_t alignment_mask = DataFile::alignment - 1;

// Ordinary memory of this thread.
uint8_t * bounce_buffer(size_t n) {
    thread_local size_t size = 0;
    thread_local std::unique_ptr<void, decltype(&std::free)> memory(nullptr, &std::free);
    if (size < n) {
        memory.reset(std::aligned_alloc(DataFile::alignment, n));
        size = memory == nullptr ? 0 : n;
        if (memory == nullptr) {
            throw std::bad_alloc();
        }
    }
    return static_cast<uint8_t *>(memory.get());
}

}  // namespace

Descriptor::~Descriptor() {
    if (number_ >= 0) {
        close(number_);
    }
}

DataFile::DataFile(const std::string & path, Caching caching)
    : path_(path),
      caching_(caching),
      plain_(open_regular(path)),
      direct_(open_direct(plain_, caching)),
      size_(size_now()),
      is_direct_(direct_.number() >= 0) {
    ask_for_cached_pages();
}

DataFile::DataFile(int descriptor, uint64_t size, const std::string & path, Caching caching)
    : path_(path),
      caching_(caching),
      plain_(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)),
      direct_(open_direct(plain_, caching)),
      size_(size),
      is_direct_(direct_.number() >= 0) {
    ask_for_cached_pages();
}

DataFile::~DataFile() {
    if (pages_ != nullptr) {
        munmap(pages_, size_);
    }
}

int DataFile::open_regular(const std::string & path) {
    // O_NONBLOCK: opening a pipe for reading would otherwise wait for a writer.
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        const std::string why = gguf::text("cannot be opened (", std::strerror(errno), ").");
        throw gguf::ModelFileError(why, "", std::nullopt).in_file(path);
    }
    return descriptor;
}

// The file that is open as `plain`, whatever its path names by now.
int DataFile::open_direct(const Descriptor & plain, Caching caching) {
    if (caching == Caching::keep) {
        return -1;
    }
    return open(gguf::text("/proc/self/fd/", plain.number()).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
}

uint64_t DataFile::size_now() const {
    struct stat status{};
    if (fstat(plain_.number(), &status) != 0) {
        fail_read(0, errno);
    }
    if (!S_ISREG(status.st_mode)) {
        throw gguf::ModelFileError("is not a regular file: give a file.", "", std::nullopt).in_file(path_);
    }
    return static_cast<uint64_t>(status.st_size);
}

void DataFile::ask_for_cached_pages() {
    if (caching_ == Caching::keep || size_ == 0) {
        return;
    }
    struct stat status{};
    const std::string file = gguf::text("/proc/self/fd/", plain_.number());
    const bool is_own = fstat(plain_.number(), &status) == 0 && (geteuid() == 0 || geteuid() == status.st_uid);
    // Of a file of somebody else's, the system says of every page that it is cached.
    if (is_own || faccessat(AT_FDCWD, file.c_str(), W_OK, AT_EACCESS) == 0) {
        void * const mapped = mmap(nullptr, size_, PROT_READ, MAP_SHARED, plain_.number(), 0);
        pages_ = mapped == MAP_FAILED ? nullptr : mapped;
    }
}

const uint8_t * DataFile::read(uint64_t offset, size_t n, uint8_t * memory) {
    if (offset > size_ || n > size_ - offset) {
        throw gguf::ModelFileError(gguf::text("has ", size_, " bytes, and those from ", offset, " to ", offset + n,
                                              " are wanted: is it another file than before?"),
                                   "", offset)
            .in_file(path_);
    }
    if (caching_ == Caching::keep) {
        read_plain(offset, n, memory);
        return memory;
    }
    const bool was_cached = is_cached(offset, n);
    if (!was_cached && is_direct_) {
        if (const uint8_t * const data = read_direct(offset, n, memory)) {
            return data;
        }
    }
    read_plain(offset, n, memory);
    if (!was_cached) {
        const uint64_t first = offset & ~alignment_mask;
        posix_fadvise(plain_.number(), static_cast<off_t>(first), static_cast<off_t>(offset + n - first),
                      POSIX_FADV_DONTNEED);
    }
    return memory;
}

bool DataFile::is_cached(uint64_t offset, size_t n) const {
    static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    if (pages_ == nullptr || n == 0) {
        return false;
    }
    const uint64_t first = offset / page * page;
    std::vector<unsigned char> cached((offset + n - first + page - 1) / page);
    return mincore(static_cast<uint8_t *>(pages_) + first, offset + n - first, cached.data()) == 0 &&
           std::all_of(cached.begin(), cached.end(), [](unsigned char c) { return (c & 1) != 0; });
}

// Null: this file system does not do it after all.
const uint8_t * DataFile::read_direct(uint64_t offset, size_t n, uint8_t * memory) {
    const uint64_t first = offset & ~alignment_mask;
    if (!needs_bounce_) {
        const int code = read_aligned(first, offset + n - first, memory);
        needs_bounce_ = code == EFAULT;
        if (code != 0 && !needs_bounce_) {
            is_direct_ = false;
            return nullptr;
        }
        if (code == 0) {
            direct_bytes_ += n;
            return memory + (offset - first);
        }
    }
    uint8_t * const bounce = bounce_buffer(memory_for(n));
    if (read_aligned(first, offset + n - first, bounce) != 0) {
        is_direct_ = false;
        return nullptr;
    }
    std::memcpy(memory, bounce + (offset - first), n);
    direct_bytes_ += n;
    return memory;
}

// Reads n bytes and those behind them in their last block. An error number where it cannot be done this way.
int DataFile::read_aligned(uint64_t first, uint64_t n, uint8_t * memory) const {
    const uint64_t whole = (n + alignment_mask) & ~alignment_mask;
    uint64_t done = 0;
    while (done < n) {
        const uint64_t at = done & ~alignment_mask;
        const ssize_t got = pread(direct_.number(), memory + at, whole - at, static_cast<off_t>(first + at));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && (errno == EINVAL || errno == EFAULT || errno == EOPNOTSUPP)) {
            return errno;
        }
        if (got < 0) {
            fail_read(first + at, errno);
        }
        const uint64_t end = at + static_cast<uint64_t>(got);
        if (end <= done && (got == 0 || first + end >= size_now())) {
            fail_short(first + end);
        }
        done = std::max(done, end);
    }
    return 0;
}

void DataFile::read_plain(uint64_t offset, size_t n, uint8_t * memory) {
    for (size_t done = 0; done < n;) {
        const ssize_t got = pread(plain_.number(), memory + done, n - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            fail_read(offset + done, errno);
        }
        if (got == 0) {
            fail_short(offset + done);
        }
        done += static_cast<size_t>(got);
    }
}

void DataFile::fail_read(uint64_t offset, int code) const {
    throw gguf::ModelFileError(gguf::text("cannot be read at byte ", offset, " (", std::strerror(code),
                                          "): check the disk and the system's log."),
                               "", offset)
        .in_file(path_);
}

void DataFile::fail_short(uint64_t offset) const {
    const uint64_t end = std::min(offset, size_now());
    throw gguf::ModelFileError(gguf::text("ends at byte ", end, ", and had ", size_,
                                          " bytes when it was opened: something cut it while it was read. Load it "
                                          "when it is complete."),
                               "", end)
        .in_file(path_);
}

}  // namespace orin
