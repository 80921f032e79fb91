// Host memory that the device reads and writes by itself.
#pragma once

#include <cstddef>

namespace simt {

// Garbage. Null: the system has no more.
void * allocate_pinned(size_t bytes);
bool free_pinned(void * memory);
bool is_pinned(const void * memory, size_t bytes);

}  // namespace simt
