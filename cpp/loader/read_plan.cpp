#include "read_plan.h"

#include <algorithm>
#include <tuple>

namespace orin {
namespace {

class Planner {
   public:
    Planner(uint64_t piece_bytes, uint64_t max_gap) : piece_bytes_(piece_bytes), max_gap_(max_gap) {}

    void add(const Span & span) {
        for (uint64_t done = 0; done < span.nbytes;) {
            uint64_t n = whole_units(span, done, room_at(span.part, span.offset + done));
            if (n == 0) {
                pieces_.push_back({span.part, span.offset + done, 0, {}});
                n = std::max(whole_units(span, done, piece_bytes_), std::min(span.unit, span.nbytes - done));
            }
            Piece & piece = pieces_.back();
            const uint64_t at = span.offset + done - piece.offset;
            piece.fragments.push_back({span.tensor, done, at, n});
            piece.nbytes = at + n;
            done += n;
        }
    }

    std::vector<Piece> pieces() && { return std::move(pieces_); }

   private:
    // How many bytes the latest piece still takes when they begin at this offset of that part.
    uint64_t room_at(uint32_t part, uint64_t offset) const {
        if (pieces_.empty() || pieces_.back().part != part) {
            return 0;
        }
        const Piece & piece = pieces_.back();
        const uint64_t end = piece.offset + piece.nbytes;
        const bool is_near = offset >= end && offset - end <= max_gap_;
        return is_near && offset - piece.offset < piece_bytes_ ? piece_bytes_ - (offset - piece.offset) : 0;
    }

    static uint64_t whole_units(const Span & span, uint64_t done, uint64_t room) {
        const uint64_t left = span.nbytes - done;
        return left <= room ? left : room / span.unit * span.unit;
    }

    uint64_t piece_bytes_;
    uint64_t max_gap_;
    std::vector<Piece> pieces_;
};

}  // namespace

std::vector<Piece> plan_pieces(std::vector<Span> spans, uint64_t piece_bytes, uint64_t max_gap) {
    std::sort(spans.begin(), spans.end(), [](const Span & a, const Span & b) {
        return std::tie(a.part, a.offset, a.tensor) < std::tie(b.part, b.offset, b.tensor);
    });
    Planner planner(piece_bytes, max_gap);
    for (const Span & span : spans) {
        planner.add(span);
    }
    return std::move(planner).pieces();
}

}  // namespace orin
