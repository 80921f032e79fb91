// Where a model's table of tokens and its output matrix are kept: llama.cpp decides by device, type and shape.
#pragma once

#include <optional>
#include <string>

#include "model.h"

namespace orin {

struct TablePlace {
    std::string tensor;        // its name in the file
    std::string device;        // "cpu", or the name of the GPU
    bool is_repacked = false;  // laid out anew for the CPU's dot products: not the bytes of the file
};

struct TablePlaces {
    std::optional<TablePlace> embedding;  // what tokens are looked up in
    std::optional<TablePlace> output;     // what logits are computed with; none in a model that has no logits
    bool is_one_table = false;            // both are the same bytes in memory
};

// Goes through the load of a model without memory for the weights and without reading them.
// Throws as Model does.
TablePlaces table_places(const std::string & path, ModelParams params);

}  // namespace orin
