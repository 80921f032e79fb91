// The table of tensors that follows the metadata: names, shapes, types and where the data lies.
#pragma once

#include "header.h"
#include "reader.h"

namespace orin::gguf {

// Reads n entries into header.tensors and sets header.data_offset. Every tensor's data lies inside the file, where
// llama.cpp expects it: in the table's order, without gaps other than padding. PRECOND: header.alignment is set
void read_tensor_table(Reader & reader, uint64_t n, Header & header);

}  // namespace orin::gguf
