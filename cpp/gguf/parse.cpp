#include "parse.h"

#include "checked.h"
#include "foreign.h"
#include "limits.h"
#include "reader.h"
#include "tensor_table.h"

namespace orin::gguf {

namespace {

constexpr uint32_t oldest_version = 2;
constexpr uint32_t newest_version = 3;

Place header_field(const char * name, uint64_t offset) {
    return {Part::header, name, offset};
}

uint32_t read_version(Reader & reader) {
    const Place place = header_field("version", reader.position());
    const auto version = reader.scalar<uint32_t>(place);
    if (version == 1) {
        fail(place, "GGUF version 1, of 2023, is no longer read: take a newer file of the model", Advice::none);
    }
    if (version != 0 && (version & 0xffff) == 0) {
        fail(place, "the file is big-endian: take the little-endian file of the model", Advice::none);
    }
    if (version < oldest_version) {
        fail(place, text("version ", version, ", expected ", oldest_version, " or ", newest_version));
    }
    if (version > newest_version) {
        fail(place, text("version ", version, ", expected ", oldest_version, " or ", newest_version),
             Advice::unsupported);
    }
    return version;
}

uint64_t read_count(Reader & reader, const char * name, uint64_t limit, const char * limit_name) {
    const Place place = header_field(name, reader.position());
    const auto count = reader.scalar<uint64_t>(place);
    if (count > limit) {
        fail(place, text(count, ", more than the limit of ", limit, " (", limit_name, ")"));
    }
    return count;
}

void read_entry(Reader & reader, Header & header) {
    const uint64_t start = reader.position();
    Place place{Part::key, text("metadata[", header.metadata.size(), "]"), start};
    std::string key = reader.string(limits::max_key_bytes, "max_key_bytes", place);
    if (key.empty()) {
        fail(place, "the key is empty");
    }
    if (key.find('\0') != std::string::npos) {
        fail(place, "the key contains a NUL byte");
    }
    place.name = key;
    if (!header.key_index.emplace(key, header.metadata.size()).second) {
        fail(place, "the key is there twice");
    }
    Value value = Value::read(reader, place);
    header.metadata.push_back({std::move(key), std::move(value)});
}

uint64_t read_alignment(const Header & header) {
    const char * key = "general.alignment";
    const Value * value = header.find(key);
    if (!value) {
        return 32;
    }
    const Place place{Part::key, key, value->offset()};
    if (!value->is_scalar(ValueType::u32)) {
        fail(place, text("of type ", value->type_name(), ", expected u32"));
    }
    const uint64_t alignment = value->as_unsigned();
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
        fail(place, text(alignment, " bytes, expected a power of two"));
    }
    if (alignment < limits::min_alignment || alignment > limits::max_alignment) {
        fail(place, text(alignment, " bytes, expected ", limits::min_alignment, " (min_alignment) to ",
                         limits::max_alignment, " (max_alignment)"));
    }
    return alignment;
}

}  // namespace

Header parse_header(const ByteSource & source) {
    refuse_foreign(source);

    Reader reader(source);
    Header header;
    header.file_bytes = source.size();

    std::string magic;
    reader.append(magic, 4, header_field("magic", 0));
    header.version = read_version(reader);
    const uint64_t n_tensors = read_count(reader, "tensor_count", limits::max_tensors, "max_tensors");
    const uint64_t n_metadata = read_count(reader, "metadata_kv_count", limits::max_metadata_keys, "max_metadata_keys");
    for (uint64_t i = 0; i < n_metadata; ++i) {
        read_entry(reader, header);
    }
    header.alignment = read_alignment(header);
    read_tensor_table(reader, n_tensors, header);
    return header;
}

}  // namespace orin::gguf
