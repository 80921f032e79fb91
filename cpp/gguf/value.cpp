#include "value.h"

#include "limits.h"

namespace orin::gguf {

namespace {

constexpr uint32_t n_types = 13;

// Bytes of a scalar, or the least a string or an array takes.
uint64_t size_of(ValueType type) {
    switch (type) {
        case ValueType::u8:
        case ValueType::i8:
        case ValueType::boolean:
            return 1;
        case ValueType::u16:
        case ValueType::i16:
            return 2;
        case ValueType::u32:
        case ValueType::i32:
        case ValueType::f32:
            return 4;
        case ValueType::u64:
        case ValueType::i64:
        case ValueType::f64:
        case ValueType::string:
        case ValueType::array:
            return 8;
    }
    return 8;
}

ValueType read_type(Reader & reader, const Place & place, const char * what) {
    const uint64_t start = reader.position();
    const auto number = reader.scalar<uint32_t>(place);
    if (number >= n_types) {
        fail({place.part, place.name, start}, text(what, " ", number, " is unknown, expected 0 to ", n_types - 1));
    }
    return static_cast<ValueType>(number);
}

}  // namespace

const char * name_of(ValueType type) {
    switch (type) {
        case ValueType::u8:
            return "u8";
        case ValueType::i8:
            return "i8";
        case ValueType::u16:
            return "u16";
        case ValueType::i16:
            return "i16";
        case ValueType::u32:
            return "u32";
        case ValueType::i32:
            return "i32";
        case ValueType::f32:
            return "f32";
        case ValueType::boolean:
            return "bool";
        case ValueType::string:
            return "string";
        case ValueType::array:
            return "array";
        case ValueType::u64:
            return "u64";
        case ValueType::i64:
            return "i64";
        case ValueType::f64:
            return "f64";
    }
    return "?";
}

Value Value::read(Reader & reader, const Place & place) {
    Value value;
    value.type_ = read_type(reader, place, "value type");
    if (value.type_ == ValueType::array) {
        const uint64_t start = reader.position();
        value.is_array_ = true;
        value.type_ = read_type(reader, place, "array element type");
        if (value.type_ == ValueType::array) {
            fail({place.part, place.name, start}, "an array of arrays, which llama.cpp cannot read",
                 Advice::unsupported);
        }
        const uint64_t count_at = reader.position();
        value.count_ = reader.scalar<uint64_t>(place);
        if (value.count_ > limits::max_array_elements) {
            fail({place.part, place.name, count_at},
                 text("an array of ", value.count_, " elements, more than the limit of ", limits::max_array_elements,
                      " (max_array_elements)"));
        }
    }
    value.offset_ = reader.position();
    reader.require(value.count_, size_of(value.type_), place);
    if (value.type_ == ValueType::string) {
        value.read_strings(reader, place);
    } else {
        reader.append(value.bytes_, value.count_ * size_of(value.type_), place);
    }
    if (value.type_ == ValueType::boolean) {
        value.check_booleans(place);
    }
    return value;
}

void Value::read_strings(Reader & reader, const Place & place) {
    static_assert(limits::max_header_bytes <= UINT32_MAX, "ends_ counts bytes of the header");
    ends_.reserve(count_);
    for (uint64_t i = 0; i < count_; ++i) {
        const uint64_t start = reader.position();
        const auto n = reader.scalar<uint64_t>(place);
        if (n > limits::max_string_bytes) {
            const std::string which = is_array_ ? text("string ", i) : std::string("a string");
            fail({place.part, place.name, start}, text(which, " of ", n, " bytes, more than the limit of ",
                                                       limits::max_string_bytes, " (max_string_bytes)"));
        }
        reader.append(bytes_, n, place);
        ends_.push_back(static_cast<uint32_t>(bytes_.size()));
    }
}

void Value::check_booleans(const Place & place) const {
    for (uint64_t i = 0; i < count_; ++i) {
        const auto byte = element<uint8_t>(i);
        if (byte > 1) {
            fail({place.part, place.name, offset_ + i}, text("a boolean of ", unsigned{byte}, ", expected 0 or 1"));
        }
    }
}

bool Value::is_integer() const {
    return !is_float() && type_ != ValueType::string;
}

std::string Value::type_name() const {
    return is_array_ ? text("array of ", name_of(type_)) : std::string(name_of(type_));
}

uint64_t Value::as_unsigned(uint64_t i) const {
    return static_cast<uint64_t>(as_signed(i));
}

int64_t Value::as_signed(uint64_t i) const {
    switch (type_) {
        case ValueType::u8:
        case ValueType::boolean:
            return element<uint8_t>(i);
        case ValueType::i8:
            return element<int8_t>(i);
        case ValueType::u16:
            return element<uint16_t>(i);
        case ValueType::i16:
            return element<int16_t>(i);
        case ValueType::u32:
            return element<uint32_t>(i);
        case ValueType::i32:
            return element<int32_t>(i);
        default:
            return element<int64_t>(i);
    }
}

double Value::as_double(uint64_t i) const {
    return type_ == ValueType::f32 ? static_cast<double>(element<float>(i)) : element<double>(i);
}

std::string_view Value::as_string(uint64_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
}

}  // namespace orin::gguf
