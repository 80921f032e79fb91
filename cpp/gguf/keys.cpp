#include "keys.h"

namespace orin::gguf {

void fail_key(const std::string & key, const Value & value, const std::string & found, Advice advice) {
    fail({Part::key, key, value.offset()}, found, advice);
}

void fail_key(const Header & header, const std::string & key, const std::string & found) {
    const Value * value = header.find(key);
    fail({Part::key, key, value ? std::optional(value->offset()) : std::nullopt}, found, Advice::unsound);
}

void fail_missing(const std::string & key, const std::string & expected) {
    fail({Part::key, key, std::nullopt}, text("missing, expected ", expected), Advice::unsound);
}

const Value * find_scalar(const Header & header, const std::string & key, ValueType type) {
    const Value * value = header.find(key);
    if (value && !value->is_scalar(type)) {
        fail_key(key, *value, text("of type ", value->type_name(), ", expected ", name_of(type)));
    }
    return value;
}

const Value * find_array(const Header & header, const std::string & key, ValueType type) {
    const Value * value = header.find(key);
    if (value && !value->is_array_of(type)) {
        fail_key(key, *value, text("of type ", value->type_name(), ", expected array of ", name_of(type)));
    }
    return value;
}

void check_count(const std::string & key, const Value & value, uint64_t found, const Count & count) {
    const std::string shown = *count.noun ? text(found, " ", count.noun) : text(found);
    if (found < count.min) {
        fail_key(key, value, text(shown, ", expected at least ", count.min));
    }
    if (found > count.max) {
        fail_key(key, value, text(shown, ", more than the limit of ", count.max, " (", count.limit_name, ")"));
    }
}

std::vector<uint64_t> per_layer(const Header & header, const std::string & key, uint64_t n_layer, const Count & count) {
    const Value * value = header.find(key);
    if (!value) {
        return {};
    }
    const bool is_number =
        value->type() == ValueType::u32 ||
        (value->is_array() && (value->type() == ValueType::i32 || value->type() == ValueType::boolean));
    if (!is_number) {
        fail_key(key, *value, text("of type ", value->type_name(), ", expected u32 or array of u32 or i32"));
    }
    if (value->is_array() && value->count() != n_layer) {
        fail_key(key, *value, text("an array of ", value->count(), " for ", n_layer, " layers"));
    }
    std::vector<uint64_t> counts;
    for (uint64_t il = 0; il < n_layer; ++il) {
        const int64_t found = value->as_signed(value->is_array() ? il : 0);
        if (found < 0) {
            fail_key(key, *value, text(found, " ", count.noun, ", expected at least ", count.min));
        }
        counts.push_back(static_cast<uint64_t>(found));
        check_count(key, *value, counts.back(), count);
    }
    return counts;
}

}  // namespace orin::gguf
