// Memory that files are read into, in slots of equal size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "data_file.h"
#include "read_plan.h"

namespace orin {

// Bytes of a slot that any of these pieces can be read into.
inline size_t slot_bytes(const std::vector<Piece> & pieces) {
    uint64_t most = 0;
    for (const Piece & piece : pieces) {
        most = std::max(most, piece.nbytes);
    }
    return DataFile::memory_for(most);
}

// Aligned for reads that bypass the page cache. Takes memory as slots are first written.
class StagingMemory {
   public:
    StagingMemory(size_t n_slots, size_t slot_bytes)
        : slot_bytes_(slot_bytes), memory_(std::aligned_alloc(DataFile::alignment, n_slots * slot_bytes)) {
        if (memory_ == nullptr) {
            throw std::bad_alloc();
        }
    }

    uint8_t * slot(size_t i) const { return static_cast<uint8_t *>(memory_.get()) + i * slot_bytes_; }

   private:
    struct Free {
        void operator()(void * memory) const { std::free(memory); }
    };
    size_t slot_bytes_;
    std::unique_ptr<void, Free> memory_;
};

}  // namespace orin
