// Disks and file systems that fail, as the reader sees them: pread() here is ours.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "gguf/error.h"
#include "loader/data_file.h"
#include "loader/staging.h"

namespace {

struct Faults {
    int direct_error = 0;              // of reads that bypass the page cache
    const uint8_t * pinned = nullptr;  // where direct_error holds, or everywhere
    size_t pinned_bytes = 0;
    off_t broken_from = -1;  // EIO from here on
    orin::Random * short_reads = nullptr;
};
Faults faults;

bool is_direct(int descriptor) {
    return (fcntl(descriptor, F_GETFL) & O_DIRECT) != 0;
}

}  // namespace

// Instead of the C library's.
extern "C" ssize_t pread(int descriptor, void * to, size_t n, off_t offset) {
    const auto * const memory = static_cast<uint8_t *>(to);
    const bool is_pinned = memory >= faults.pinned && memory < faults.pinned + faults.pinned_bytes;
    if (faults.direct_error != 0 && is_direct(descriptor) && (faults.pinned == nullptr || is_pinned)) {
        errno = faults.direct_error;
        return -1;
    }
    if (faults.broken_from >= 0 && offset + static_cast<off_t>(n) > faults.broken_from) {
        if (offset >= faults.broken_from) {
            errno = EIO;
            return -1;
        }
        n = static_cast<size_t>(faults.broken_from - offset);
    }
    if (faults.short_reads != nullptr) {
        if (faults.short_reads->one_in(5)) {
            errno = EINTR;
            return -1;
        }
        // Reads that bypass the cache end between blocks of 512 bytes.
        const size_t step = is_direct(descriptor) ? 512 : 1;
        const auto steps = static_cast<int32_t>(n / step);
        n = steps > 1 ? step * static_cast<size_t>(1 + faults.short_reads->below(steps)) : n;
    }
    return syscall(SYS_pread64, descriptor, to, n, offset);
}

namespace orin {
namespace {

constexpr size_t file_bytes = 300'001;

class Fixture {
   public:
    Fixture() : bytes_(file_bytes), memory_(1, DataFile::memory_for(file_bytes)) {
        for (size_t i = 0; i < file_bytes; i++) {
            bytes_[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
        }
        descriptor_ = mkstemp(path_.data());
        CHECK(descriptor_ >= 0);
        CHECK(write(descriptor_, bytes_.data(), file_bytes) == static_cast<ssize_t>(file_bytes));
        CHECK(fsync(descriptor_) == 0);
        forget();
    }
    ~Fixture() {
        faults = {};
        close(descriptor_);
        unlink(path_.c_str());
    }

    int descriptor() const { return descriptor_; }
    const std::string & path() const { return path_; }
    uint8_t * memory() const { return memory_.slot(0); }

    void forget() const { posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED); }

    DataFile open(Caching caching) const { return DataFile(descriptor_, file_bytes, path_, caching); }

    void check_read(DataFile & file, uint64_t offset, size_t n) const {
        const uint8_t * const data = file.read(offset, n, memory());
        CHECK(data >= memory() && data + n <= memory() + DataFile::memory_for(n));
        CHECK(std::equal(data, data + n, bytes_.begin() + static_cast<ptrdiff_t>(offset)));
    }

    size_t n_cached_pages() const {
        void * const file = mmap(nullptr, file_bytes, PROT_READ, MAP_SHARED, descriptor_, 0);
        std::vector<unsigned char> pages((file_bytes + 4095) / 4096);
        CHECK(mincore(file, file_bytes, pages.data()) == 0);
        munmap(file, file_bytes);
        return static_cast<size_t>(
            std::count_if(pages.begin(), pages.end(), [](auto page) { return (page & 1) != 0; }));
    }

   private:
    std::vector<uint8_t> bytes_;
    StagingMemory memory_;
    std::string path_ = "build/test_load_faults.XXXXXX";
    int descriptor_ = -1;
};

void what_a_file_system_refuses_is_read_through_the_cache_and_does_not_stay() {
    const Fixture fixture;
    faults.direct_error = EINVAL;
    DataFile file = fixture.open(Caching::bypass);
    fixture.check_read(file, 5000, 200'000);
    CHECK(file.direct_bytes() == 0);
    CHECK(fixture.n_cached_pages() < 40);  // but what the system read ahead of that
}

void memory_that_the_disk_cannot_write_to_is_reached_through_other_memory() {
    const Fixture fixture;
    faults = {EFAULT, fixture.memory(), DataFile::memory_for(file_bytes), -1, nullptr};
    DataFile file = fixture.open(Caching::bypass);
    for (const uint64_t offset : {0, 1, 4096, 77'777}) {
        fixture.check_read(file, offset, 100'000);
    }
    CHECK(file.direct_bytes() == 400'000);
    CHECK(fixture.n_cached_pages() == 0);
}

void a_disk_that_fails_is_an_error_that_names_the_place() {
    for (const Caching caching : {Caching::keep, Caching::bypass}) {
        const Fixture fixture;
        faults.broken_from = 40 * 4096;
        DataFile file = fixture.open(caching);
        fixture.check_read(file, 100, 39 * 4096);
        try {
            file.read(100, 60 * 4096, fixture.memory());
            CHECK(!"it was read");
        } catch (const gguf::ModelFileError & error) {
            CHECK(error.path() == fixture.path());
            CHECK(error.offset() == 40 * 4096);
            CHECK(std::strstr(error.what(), "Input/output error") != nullptr);
        }
    }
}

void reads_that_end_early_go_on(Random & random) {
    const Fixture fixture;
    faults.short_reads = &random;
    for (int i = 0; i < 20; i++) {
        DataFile file = fixture.open(random.one_in(2) ? Caching::keep : Caching::bypass);
        const auto offset = static_cast<uint64_t>(random.below(file_bytes));
        fixture.check_read(file, offset,
                           static_cast<size_t>(random.below(static_cast<int32_t>(file_bytes - offset)) + 1));
        fixture.forget();
    }
}

void bytes_that_are_not_there_are_not_asked_for() {
    const Fixture fixture;
    DataFile file = fixture.open(Caching::bypass);
    try {
        file.read(file_bytes - 10, 11, fixture.memory());
        CHECK(!"it was read");
    } catch (const gguf::ModelFileError & error) {
        CHECK(error.offset() == file_bytes - 10);
    }
}

}  // namespace
}  // namespace orin

int main() {
    orin::Random random(1);
    orin::what_a_file_system_refuses_is_read_through_the_cache_and_does_not_stay();
    orin::memory_that_the_disk_cannot_write_to_is_reached_through_other_memory();
    orin::a_disk_that_fails_is_an_error_that_names_the_place();
    orin::reads_that_end_early_go_on(random);
    orin::bytes_that_are_not_there_are_not_asked_for();
    return 0;
}
