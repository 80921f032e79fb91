// In which pieces files are read: large, in the order of the files, and cut where a part of a tensor can stand alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace orin {

// Bytes of a file that are wanted, such as a tensor's.
struct Span {
    size_t tensor = 0;    // the caller's number for it
    uint32_t part = 0;    // which file of a split model, from 0
    uint64_t offset = 0;  // from the start of that file
    uint64_t nbytes = 0;
    uint64_t unit = 1;  // cut only at multiples of it, such as the bytes of a block
};

// The part of a span that lies in a piece.
struct Fragment {
    size_t tensor = 0;
    uint64_t tensor_offset = 0;  // from the start of the span
    uint64_t piece_offset = 0;   // from the start of the piece
    uint64_t nbytes = 0;
};

// Read at once, from one file.
struct Piece {
    uint32_t part = 0;
    uint64_t offset = 0;
    uint64_t nbytes = 0;
    std::vector<Fragment> fragments;  // never empty, in the order of the file
};

// Pieces of up to `piece_bytes` that cover all spans, by part and offset. Larger is only a piece of a single unit that
// is larger itself. Spans share a piece where no more than `max_gap` bytes lie between them; empty ones are left out.
std::vector<Piece> plan_pieces(std::vector<Span> spans, uint64_t piece_bytes, uint64_t max_gap);

}  // namespace orin
