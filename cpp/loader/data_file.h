// A file whose data is read in large pieces by several threads, around the page cache where that is better.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace orin {

enum class Caching {
    keep,    // what was read stays in the page cache
    bypass,  // what is not in the page cache is read without it, and does not stay there
};

// An open file, closed with it; -1: none.
class Descriptor {
   public:
    explicit Descriptor(int number = -1) : number_(number) {}
    ~Descriptor();
    Descriptor(const Descriptor &) = delete;
    Descriptor & operator=(const Descriptor &) = delete;

    int number() const { return number_; }

   private:
    int number_;
};

class DataFile {
   public:
    // Of offsets, sizes and memory of reads that bypass the cache.
    static constexpr size_t alignment = 4096;

    // Opens a regular file. Throws gguf::ModelFileError.
    DataFile(const std::string & path, Caching caching);
    // The file that is open as `descriptor`, which stays the caller's, and had this size when it was opened; `path` is
    // for messages.
    DataFile(int descriptor, uint64_t size, const std::string & path, Caching caching);
    ~DataFile();
    DataFile(const DataFile &) = delete;
    DataFile & operator=(const DataFile &) = delete;

    const std::string & path() const { return path_; }
    uint64_t size() const { return size_; }  // when it was opened

    // Memory that a read of n bytes takes: what is around them is read, too.
    static constexpr size_t memory_for(size_t n) { return (n + 3 * alignment - 1) / alignment * alignment; }

    // Reads n bytes at an offset and returns where they lie in `memory`, which is aligned and has memory_for(n) bytes.
    // From any thread. Throws gguf::ModelFileError, with the offset, where they cannot be read or are not there.
    const uint8_t * read(uint64_t offset, size_t n, uint8_t * memory);

    // Bytes that were read around the page cache so far.
    uint64_t direct_bytes() const { return direct_bytes_; }

   private:
    static int open_regular(const std::string & path);
    static int open_direct(const Descriptor & plain, Caching caching);
    uint64_t size_now() const;
    void ask_for_cached_pages();
    bool is_cached(uint64_t offset, size_t n) const;
    const uint8_t * read_direct(uint64_t offset, size_t n, uint8_t * memory);
    int read_aligned(uint64_t first, uint64_t n, uint8_t * memory) const;
    void read_plain(uint64_t offset, size_t n, uint8_t * memory);
    [[noreturn]] void fail_read(uint64_t offset, int code) const;
    [[noreturn]] void fail_short(uint64_t offset) const;

    const std::string path_;
    const Caching caching_;
    const Descriptor plain_;
    const Descriptor direct_;
    const uint64_t size_;
    void * pages_ = nullptr;  // the file mapped, to ask which of its pages are cached; null: do not ask
    std::atomic<bool> is_direct_;
    // A device that reads the disk may not write to the memory: a driver's pinned memory need not have pages of the
    // system.
    std::atomic<bool> needs_bounce_{false};
    std::atomic<uint64_t> direct_bytes_{0};
};

}  // namespace orin
