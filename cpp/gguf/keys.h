// Typed look-ups of metadata with the messages for what is not as expected.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "header.h"

namespace orin::gguf {

// Fails about the value of a key; about its element i where an index is given.
[[noreturn]] void fail_key(const std::string & key, const Value & value, const std::string & found,
                           Advice advice = Advice::unsound);

// The same for a key that may be missing.
[[noreturn]] void fail_key(const Header & header, const std::string & key, const std::string & found);

// Fails about a key that is not there.
[[noreturn]] void fail_missing(const std::string & key, const std::string & expected);

// nullptr where the key is missing; fails where its type is another one.
const Value * find_scalar(const Header & header, const std::string & key, ValueType type);
const Value * find_array(const Header & header, const std::string & key, ValueType type);

// Bounds of a count, and the words for a message about it.
struct Count {
    const char * suffix;  // of the key, behind the architecture's name
    const char * noun;    // plural: what is counted; "" for a number that counts nothing
    uint64_t min;
    uint64_t max;
    const char * limit_name;  // of max
};

// Fails unless min <= found <= max.
void check_count(const std::string & key, const Value & value, uint64_t found, const Count & count);

// One count per layer: the value repeated for a scalar. Empty where the key is missing.
std::vector<uint64_t> per_layer(const Header & header, const std::string & key, uint64_t n_layer, const Count & count);

}  // namespace orin::gguf
