#include "reader.h"

#include <algorithm>

#include "limits.h"

namespace orin::gguf {

namespace {

Place at(const Place & place, uint64_t offset) {
    return {place.part, place.name, offset};
}

}  // namespace

void Reader::require(uint64_t count, uint64_t item_bytes, const Place & place) const {
    if (count > remaining() / item_bytes) {
        fail(at(place, position()),
             text(count, count == 1 ? " value of " : " values of ", item_bytes, " bytes expected, but the file ends ",
                  remaining(), " bytes further on, at ", source_.size()),
             Advice::unfinished);
    }
    if (position() > limits::max_header_bytes || count > (limits::max_header_bytes - position()) / item_bytes) {
        fail(at(place, position()),
             text("the header grows beyond the limit of ", limits::max_header_bytes, " bytes (max_header_bytes)"));
    }
}

void Reader::append(std::string & to, uint64_t n, const Place & place) {
    require(n, 1, place);
    const size_t before = to.size();
    to.resize(before + n);
    copy(to.data() + before, n);
}

std::string Reader::string(uint64_t max_bytes, const char * limit_name, const Place & place) {
    const uint64_t start = position();
    const auto n = scalar<uint64_t>(place);
    if (n > max_bytes) {
        fail(at(place, start),
             text("a string of ", n, " bytes, more than the limit of ", max_bytes, " (", limit_name, ")"));
    }
    std::string value;
    append(value, n, place);
    return value;
}

void Reader::copy(void * to, size_t n) {
    auto * out = static_cast<char *>(to);
    while (n > 0) {
        if (cursor_ == filled_) {
            begin_ += filled_;
            cursor_ = 0;
            filled_ = source_.read_at(begin_, buffer_.data(), buffer_.size());
            if (filled_ == 0) {
                fail({}, text("ended at byte ", begin_, " while it was read: it is being written or was cut"),
                     Advice::unfinished);
            }
        }
        const size_t step = std::min(n, filled_ - cursor_);
        std::memcpy(out, buffer_.data() + cursor_, step);
        cursor_ += step;
        out += step;
        n -= step;
    }
}

}  // namespace orin::gguf
