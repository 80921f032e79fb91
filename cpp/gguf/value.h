// A metadata value: a scalar, or an array of scalars or strings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reader.h"

namespace orin::gguf {

enum class ValueType : uint32_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    string = 8,
    array = 9,  // only in the file: an array's Value has the type of its elements
    u64 = 10,
    i64 = 11,
    f64 = 12,
};

const char * name_of(ValueType type);

class Value {
   public:
    // Reads the type and what follows it. `place` names the key, for messages.
    static Value read(Reader & reader, const Place & place);

    // Of the value, or of an array's elements.
    ValueType type() const { return type_; }
    bool is_array() const { return is_array_; }
    bool is_scalar(ValueType type) const { return !is_array_ && type_ == type; }
    bool is_array_of(ValueType type) const { return is_array_ && type_ == type; }
    bool is_integer() const;  // signed or unsigned, or a boolean
    bool is_float() const { return type_ == ValueType::f32 || type_ == ValueType::f64; }
    uint64_t count() const { return count_; }    // elements; 1 for a scalar
    uint64_t offset() const { return offset_; }  // of the first element in the file
    std::string type_name() const;               // as in "u32" or "array of string"

    // Elements. PRECOND: i < count() and the type fits the call
    uint64_t as_unsigned(uint64_t i = 0) const;  // negative numbers wrap, as in llama.cpp
    int64_t as_signed(uint64_t i = 0) const;
    double as_double(uint64_t i = 0) const;
    std::string_view as_string(uint64_t i = 0) const;

   private:
    template <class T>
    T element(uint64_t i) const {
        T value;
        std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
        return value;
    }

    void read_strings(Reader & reader, const Place & place);
    void check_booleans(const Place & place) const;

    ValueType type_ = ValueType::u8;
    bool is_array_ = false;
    uint64_t count_ = 1;
    uint64_t offset_ = 0;
    std::string bytes_;           // the elements as in the file, or the strings joined
    std::vector<uint32_t> ends_;  // strings: the end of each in bytes_
};

}  // namespace orin::gguf
