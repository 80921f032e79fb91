// Fuzz target: whatever the bytes, the preflight returns a header or throws ModelFileError.
#include <cstddef>
#include <cstdint>

#include "../../cpp/gguf/error.h"
#include "../../cpp/gguf/preflight.h"

namespace {

using orin::gguf::Header;
using orin::gguf::Value;
using orin::gguf::ValueType;

volatile uint64_t sink;

// Touches every byte that the Python binding would touch.
uint64_t read_all(const Value & value) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < value.count(); ++i) {
        if (value.type() == ValueType::string) {
            for (const char c : value.as_string(i)) {
                sum += static_cast<unsigned char>(c);
            }
        } else if (value.is_float()) {
            sum += value.as_double(i) > 0 ? 1 : 0;
        } else {
            sum += value.as_unsigned(i);
        }
    }
    return sum;
}

uint64_t read_all(const Header & header) {
    uint64_t sum = 0;
    for (const auto & entry : header.metadata) {
        sum += entry.key.size() + read_all(entry.value);
    }
    for (const auto & tensor : header.tensors) {
        if (tensor.offset + tensor.nbytes > header.file_bytes || tensor.offset < header.data_offset) {
            __builtin_trap();  // data outside the file
        }
        sum += tensor.nbytes;
    }
    return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    try {
        sink = read_all(orin::gguf::check_source(orin::gguf::MemorySource(data, size)));
    } catch (const orin::gguf::ModelFileError &) {
    }
    return 0;
}
