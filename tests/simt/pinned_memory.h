// Host memory that the device reads and writes by itself.
#pragma once

#include <cstddef>

namespace simt {

// How much there may be in all; without limit at first.
void set_pinned_limit(size_t bytes);
// Garbage. Null: there is no more.
void * allocate_pinned(size_t bytes);
bool free_pinned(void * memory);
bool is_pinned(const void * memory, size_t bytes);

}  // namespace simt
