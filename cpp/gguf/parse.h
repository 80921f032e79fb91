// Reads the header of a GGUF file: the container's own rules, whatever is in it.
#pragma once

#include "header.h"
#include "source.h"

namespace orin::gguf {

// Throws ModelFileError at the first thing that is wrong. The memory taken is in proportion to the header's real
// bytes, whatever counts and lengths it declares.
Header parse_header(const ByteSource & source);

}  // namespace orin::gguf
