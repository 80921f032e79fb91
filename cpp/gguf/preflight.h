// The whole check of a model file before llama.cpp sees it.
#pragma once

#include <string>

#include "header.h"
#include "source.h"

namespace orin::gguf {

// Reads the header of a file that need not be a model, and checks what holds for any GGUF file. Throws ModelFileError
// with the path in front of the message.
Header check_container(const std::string & path);

// Reads the file's header, and the headers of the other parts when it is the first part of a split model, and checks
// them. Throws ModelFileError with the path in front of the message.
Header check_file(const std::string & path);

// The same for bytes that are a whole model in one file.
Header check_source(const ByteSource & source);

}  // namespace orin::gguf
