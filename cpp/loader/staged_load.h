// Tensors that are read into staging memory and from there go where they are used.
#pragma once

#include "load_part.h"

namespace orin {

// To memory of the host: threads copy or repack what they have read. False: it was stopped. Throws
// gguf::ModelFileError.
bool load_to_host(const LoadPart & part);

// To a device, which copies piece after piece while others are read. Adds the time that was spent waiting for it.
// PRECOND: all tensors are in buffers of one type
bool load_to_device(const LoadPart & part, double & waited_ms);

// To buffers that take a tensor only as a whole: one at a time is put together in memory. False: it was stopped. Throws
// gguf::ModelFileError.
bool load_at_once(const LoadPart & part);

}  // namespace orin
