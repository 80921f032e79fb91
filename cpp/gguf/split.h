// Models that are split over several files, NAME-00001-of-00003.gguf and so on.
#pragma once

#include <cstdint>
#include <string>

#include "header.h"

namespace orin::gguf {

// Number of files the model is in; 1 where it is not split.
uint64_t count_parts(const Header & header);

// Reads the other parts of the model, which lie beside the first, and adds their tensors to its header.
// PRECOND: first is the header of `path`
void add_parts(const std::string & path, Header & first);

}  // namespace orin::gguf
