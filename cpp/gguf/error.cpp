#include "error.h"

namespace orin::gguf {

namespace {

constexpr size_t max_shown_bytes = 80;

const char * noun(Part part) {
    switch (part) {
        case Part::file:
            return "";
        case Part::header:
            return "header field";
        case Part::key:
            return "metadata key";
        case Part::tensor:
            return "tensor";
    }
    return "";
}

const char * sentence(Advice advice) {
    switch (advice) {
        case Advice::none:
            return "";
        case Advice::damaged:
            return " The file is damaged: download it again.";
        case Advice::unsound:
            return " The file is damaged or was converted wrongly: download it again, or take another one.";
        case Advice::unfinished:
            return " The download is unfinished: resume it or download it again.";
        case Advice::unsupported:
            return " This version cannot run it: take another file of the model.";
    }
    return "";
}

}  // namespace

std::string printable(std::string_view bytes) {
    static const char * hex = "0123456789abcdef";

    std::string shown;
    for (const char c : bytes.substr(0, max_shown_bytes)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f) {
            shown += c;
        } else {
            shown += "\\x";
            shown += hex[byte >> 4];
            shown += hex[byte & 15];
        }
    }
    return bytes.size() > max_shown_bytes ? shown + "..." : shown;
}

void fail(const Place & place, const std::string & found, Advice advice) {
    std::string message;
    if (place.part != Part::file) {
        message = text(noun(place.part), " '", printable(place.name), "'");
        if (place.offset) {
            message += text(" at byte ", *place.offset);
        }
        message += ": ";
    }
    throw ModelFileError(message + found + "." + sentence(advice), place.name, place.offset);
}

}  // namespace orin::gguf
