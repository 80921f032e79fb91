// What the preflight knows about a file: its metadata and its tensors, but not their data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tensor_types.h"
#include "value.h"

namespace orin::gguf {

struct Entry {
    std::string key;
    Value value;
};

struct TensorInfo {
    std::string name;
    const TensorType * type;
    std::vector<uint64_t> shape;  // fastest dimension first, 1 to 4
    uint64_t elements;            // product of the shape
    uint64_t nbytes;
    uint64_t offset;       // of the data, from the start of its file
    uint64_t info_offset;  // of the entry in the table
    uint32_t part = 0;     // which file of a split model, from 0
};

struct Header {
    uint32_t version = 0;
    uint64_t alignment = 32;
    uint64_t data_offset = 0;  // where the first tensor's data may start
    uint64_t file_bytes = 0;   // of all parts
    uint32_t n_parts = 1;
    std::vector<Entry> metadata;      // in the order of the file
    std::vector<TensorInfo> tensors;  // in the order of the file, part after part

    const Value * find(std::string_view key) const;
    const TensorInfo * find_tensor(std::string_view name) const;

    std::unordered_map<std::string, size_t> key_index;
    std::unordered_map<std::string, size_t> tensor_index;
};

}  // namespace orin::gguf
