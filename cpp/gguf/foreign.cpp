#include "foreign.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>
#include <string_view>

#include "error.h"

namespace orin::gguf {

namespace {

using std::string_view_literals::operator""sv;

constexpr size_t head_bytes = 4096;

struct Kind {
    std::string_view start;
    const char * message;
};

const Kind kinds[] = {
    {"PK\3\4"sv, "is a ZIP archive (PyTorch checkpoints are such), not a GGUF file: unpack or convert it"},
    {"\x80\2"sv, "is a Python pickle (a PyTorch checkpoint), not a GGUF file: convert it"},
    {"\x80\4"sv, "is a Python pickle (a PyTorch checkpoint), not a GGUF file: convert it"},
    {"\x1f\x8b"sv, "is compressed by gzip: unpack it"},
    {"\x28\xb5\x2f\xfd"sv, "is compressed by zstd: unpack it"},
    {"\xfd\x37zXZ\0"sv, "is compressed by xz: unpack it"},
    {"lmgg"sv, "is a GGML file, older than GGUF: take a newer file of the model"},
    {"fmgg"sv, "is a GGML file, older than GGUF: take a newer file of the model"},
    {"tjgg"sv, "is a GGML file, older than GGUF: take a newer file of the model"},
    {"alsg"sv, "is a GGML adapter, older than GGUF, and not a model"},
};

bool begins(std::string_view text, std::string_view start) {
    return text.substr(0, start.size()) == start;
}

// The start without a byte order mark and white space, in lower case.
std::string as_text(std::string_view head) {
    if (begins(head, "\xef\xbb\xbf")) {
        head.remove_prefix(3);
    }
    while (!head.empty() && std::isspace(static_cast<unsigned char>(head.front()))) {
        head.remove_prefix(1);
    }
    std::string lower(head.substr(0, 256));
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    return lower;
}

[[noreturn]] void refuse(const std::string & message) {
    throw ModelFileError(message + ".", "magic", 0);
}

void refuse_lfs_pointer(std::string_view head) {
    if (!begins(head, "version https://git-lfs.github.com/spec/")) {
        return;
    }
    std::string size;
    const size_t at = head.find("\nsize ");
    if (at != std::string_view::npos) {
        const std::string_view rest = head.substr(at + 6);
        size = text(" of ", printable(rest.substr(0, rest.find('\n'))), " bytes");
    }
    refuse("is a Git LFS pointer, not the model" + size + " itself: run 'git lfs pull' or download the file");
}

// Eight bytes of length and then a JSON object.
bool is_safetensors(std::string_view head, uint64_t file_bytes) {
    uint64_t n = 0;
    if (head.size() < 9 || head[8] != '{') {
        return false;
    }
    std::memcpy(&n, head.data(), sizeof(n));
    return n >= 2 && n <= file_bytes - 8;
}

}  // namespace

void refuse_foreign(const ByteSource & source) {
    std::string head(std::min<uint64_t>(head_bytes, source.size()), '\0');
    head.resize(source.read_at(0, head.data(), head.size()));

    if (head.empty()) {
        refuse("is empty: the download has not begun, or there was no space for it");
    }
    if (begins(head, "GGUF")) {
        return;
    }
    if (begins("GGUF", head)) {
        fail({Part::header, "magic", 0}, text("the file ends after ", head.size(), " bytes"), Advice::unfinished);
    }
    if (std::all_of(head.begin(), head.end(), [](char c) { return c == 0; })) {
        refuse("begins with zeros: space was reserved but the download is unfinished. Download it again");
    }
    for (const Kind & kind : kinds) {
        if (begins(head, kind.start)) {
            refuse(kind.message);
        }
    }
    refuse_lfs_pointer(head);
    if (is_safetensors(head, source.size())) {
        refuse("is a safetensors file, not a GGUF file: take the model's GGUF file or convert it");
    }
    const std::string text_start = as_text(head);
    for (const char * tag : {"<!doctype html", "<html", "<head", "<body", "<!--", "<?xml"}) {
        if (begins(text_start, tag)) {
            refuse(
                "is a web page (HTML), not a model: the address shows a page, or needs a login. Download the file "
                "itself");
        }
    }
    if (begins(text_start, "{") || begins(text_start, "[")) {
        refuse("is a JSON text, perhaps a server's error message, not a model");
    }
    refuse(text("is not a GGUF file: it begins with '", printable(std::string_view(head).substr(0, 4)),
                "', expected 'GGUF'"));
}

}  // namespace orin::gguf
