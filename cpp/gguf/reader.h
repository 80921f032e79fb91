// A cursor over the header of a file: little-endian scalars and strings, every read checked against what is left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "error.h"
#include "source.h"

namespace orin::gguf {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied as they lie in the file");

class Reader {
   public:
    explicit Reader(const ByteSource & source)
        : source_(source), buffer_(std::min<uint64_t>(max_buffer_bytes, source.size())) {}

    uint64_t position() const { return begin_ + cursor_; }
    uint64_t remaining() const { return source_.size() - position(); }

    // Fails unless `count` items of `item_bytes` each are left, in the file and within the header's limit.
    // PRECOND: item_bytes > 0
    void require(uint64_t count, uint64_t item_bytes, const Place & place) const;

    template <class T>
    T scalar(const Place & place) {
        static_assert(std::is_arithmetic_v<T>);
        T value;
        require(1, sizeof(T), place);
        copy(&value, sizeof(T));
        return value;
    }

    // Appends `n` bytes. The memory taken is what the file really holds: n is checked first.
    void append(std::string & to, uint64_t n, const Place & place);

    // A string with its 64-bit length before it.
    std::string string(uint64_t max_bytes, const char * limit_name, const Place & place);

   private:
    static constexpr size_t max_buffer_bytes = 256 * 1024;

    // PRECOND: required before
    void copy(void * to, size_t n);

    const ByteSource & source_;
    std::vector<char> buffer_;
    uint64_t begin_ = 0;  // offset in the file of the buffer's first byte
    size_t filled_ = 0;
    size_t cursor_ = 0;
};

}  // namespace orin::gguf
