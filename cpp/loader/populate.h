// Pages of a mapped file brought into memory ahead of their use.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace orin {

// Reads these bytes and enters them into the page tables. False: the kernel is older than 5.14, or the file is cut,
// where touching them would end the process. PRECOND: data is at the start of a page
inline bool populate(void * data, size_t nbytes) {
    return madvise(data, nbytes, MADV_POPULATE_READ) == 0;
}

}  // namespace orin
