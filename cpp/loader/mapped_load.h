// Tensors that stay in their mapped file: read ahead by threads, so that nothing waits for the disk later.
#pragma once

#include "load_part.h"

struct llama_model_loader;

namespace orin {

// PRECOND: the files keep what is read in the page cache. False: it was stopped. Throws gguf::ModelFileError.
bool load_mapped(const LoadPart & part, const llama_model_loader & loader);

}  // namespace orin
