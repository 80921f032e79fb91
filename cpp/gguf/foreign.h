// Recognises files of other kinds that end up where a model is expected.
#pragma once

#include "source.h"

namespace orin::gguf {

// Returns for a file that begins as a GGUF file does; throws ModelFileError that says what it is for any other.
void refuse_foreign(const ByteSource & source);

}  // namespace orin::gguf
