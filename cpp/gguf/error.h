// How the preflight refuses a file: what in it is wrong, where, and what to do about it.
#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace orin::gguf {

class ModelFileError : public std::runtime_error {
   public:
    ModelFileError(const std::string & message, std::string field, std::optional<uint64_t> offset)
        : std::runtime_error(message), field_(std::move(field)), offset_(offset) {}

    // The same error with the file's name in front of the message.
    ModelFileError in_file(const std::string & path) const {
        ModelFileError error(path + ": " + what(), field_, offset_);
        error.path_ = path;
        return error;
    }

    const std::string & path() const { return path_; }
    // A header field, metadata key or tensor name; "" where the file as a whole is wrong.
    const std::string & field() const { return field_; }
    // Byte offset in the file, where there is a single place.
    std::optional<uint64_t> offset() const { return offset_; }

   private:
    std::string path_;
    std::string field_;
    std::optional<uint64_t> offset_;
};

enum class Part { file, header, key, tensor };

// What a message is about.
struct Place {
    Part part = Part::file;
    std::string name;
    std::optional<uint64_t> offset;
};

enum class Advice {
    none,         // the message says it itself
    damaged,      // the bytes make no sense
    unsound,      // what they say makes no model
    unfinished,   // bytes are missing
    unsupported,  // sound, perhaps, but not for this version
};

// Throws ModelFileError.
[[noreturn]] void fail(const Place & place, const std::string & found, Advice advice = Advice::damaged);

// As it may be shown: cut to a length that fits a line, with bytes that are not printable ASCII escaped.
std::string printable(std::string_view bytes);

template <class... Parts>
std::string text(const Parts &... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

}  // namespace orin::gguf
