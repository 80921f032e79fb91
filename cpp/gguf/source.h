// Where the bytes of a file come from: a regular file, or memory (for tests).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace orin::gguf {

class ByteSource {
   public:
    virtual ~ByteSource() = default;

    virtual uint64_t size() const = 0;

    // Reads up to n bytes at an offset and returns how many there were: fewer only at the end of the source.
    virtual size_t read_at(uint64_t offset, void * to, size_t n) const = 0;
};

// A regular file. Throws ModelFileError for anything that is not one, without waiting on a pipe or a device.
class FileSource final : public ByteSource {
   public:
    explicit FileSource(const std::string & path);
    ~FileSource() override;
    FileSource(const FileSource &) = delete;
    FileSource & operator=(const FileSource &) = delete;

    uint64_t size() const override { return size_; }
    size_t read_at(uint64_t offset, void * to, size_t n) const override;

   private:
    int descriptor_ = -1;
    uint64_t size_ = 0;
};

// Bytes that outlive it.
class MemorySource final : public ByteSource {
   public:
    MemorySource(const uint8_t * bytes, size_t size) : bytes_(bytes), size_(size) {}

    uint64_t size() const override { return size_; }
    size_t read_at(uint64_t offset, void * to, size_t n) const override;

   private:
    const uint8_t * bytes_;
    size_t size_;
};

}  // namespace orin::gguf
