#include "split.h"

#include <cstdio>

#include "keys.h"
#include "limits.h"
#include "parse.h"

namespace orin::gguf {

namespace {

const std::string count_key = "split.count";
const std::string number_key = "split.no";
const std::string tensors_key = "split.tensors.count";

std::string suffix_of(uint64_t part, uint64_t n_parts) {
    char suffix[64];
    std::snprintf(suffix, sizeof(suffix), "-%05u-of-%05u.gguf", static_cast<unsigned>(part + 1),
                  static_cast<unsigned>(n_parts));
    return suffix;
}

// What the names of all parts begin with.
std::string stem_of(const std::string & path, uint64_t n_parts) {
    const std::string suffix = suffix_of(0, n_parts);
    if (path.size() <= suffix.size() || path.compare(path.size() - suffix.size(), suffix.size(), suffix) != 0) {
        fail({}, text("is the first of ", n_parts, " parts of a model, whose name must end in '", suffix, "'"),
             Advice::none);
    }
    return path.substr(0, path.size() - suffix.size());
}

uint64_t part_number(const Header & header) {
    const Value * value = find_scalar(header, number_key, ValueType::u16);
    if (!value) {
        fail_missing(number_key, "the number of the part");
    }
    return value->as_unsigned();
}

void add_tensors(Header & first, Header & part, uint32_t number) {
    for (TensorInfo & tensor : part.tensors) {
        if (!first.tensor_index.emplace(tensor.name, first.tensors.size()).second) {
            fail({Part::tensor, tensor.name, tensor.info_offset}, "the name is also in another part");
        }
        tensor.part = number;
        first.tensors.push_back(std::move(tensor));
    }
    first.file_bytes += part.file_bytes;
}

void check_total(const Header & header) {
    const Value * total = find_scalar(header, tensors_key, ValueType::i32);
    if (!total) {
        fail_missing(tensors_key, "the number of tensors in all parts");
    }
    if (total->as_unsigned() != header.tensors.size()) {
        fail_key(tensors_key, *total, text(total->as_signed(), " tensors, but the parts hold ", header.tensors.size()));
    }
}

Header read_part(const std::string & path, uint64_t number) {
    try {
        Header part = parse_header(FileSource(path));
        if (part_number(part) != number) {
            fail_key(number_key, *part.find(number_key), text(part_number(part), ", expected ", number));
        }
        return part;
    } catch (const ModelFileError & error) {
        throw ModelFileError(text("part ", number + 1, " of the model, ", path, ": ", error.what()), error.field(),
                             error.offset());
    }
}

}  // namespace

uint64_t count_parts(const Header & header) {
    const Value * count = find_scalar(header, count_key, ValueType::u16);
    if (!count || count->as_unsigned() <= 1) {
        return 1;
    }
    if (count->as_unsigned() > limits::max_split_parts) {
        fail_key(count_key, *count,
                 text(count->as_unsigned(), " parts, more than the limit of ", limits::max_split_parts,
                      " (max_split_parts)"));
    }
    const uint64_t number = part_number(header);
    if (number != 0) {
        fail_key(number_key, *header.find(number_key),
                 text("part ", number + 1, " of ", count->as_unsigned(), " of a model: give the first part, '*",
                      suffix_of(0, count->as_unsigned()), "'"),
                 Advice::none);
    }
    return count->as_unsigned();
}

void add_parts(const std::string & path, Header & first) {
    const uint64_t n_parts = count_parts(first);
    if (n_parts == 1) {
        return;
    }
    const std::string stem = stem_of(path, n_parts);
    for (uint64_t i = 1; i < n_parts; ++i) {
        Header part = read_part(stem + suffix_of(i, n_parts), i);
        add_tensors(first, part, static_cast<uint32_t>(i));
    }
    first.n_parts = static_cast<uint32_t>(n_parts);
    check_total(first);
}

}  // namespace orin::gguf
