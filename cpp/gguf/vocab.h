// The vocabulary and the tokenizer's settings.
#pragma once

#include <cstdint>

#include "header.h"

namespace orin::gguf {

// Throws ModelFileError. Returns the number of tokens.
uint64_t check_vocab(const Header & header);

}  // namespace orin::gguf
