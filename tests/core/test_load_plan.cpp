// Pieces of random spans: every byte of every span is in one piece, cut only where it may be, and pieces are large.
#include <algorithm>
#include <vector>

#include "check.h"
#include "loader/read_plan.h"

namespace orin {
namespace {

std::vector<Span> random_spans(Random & random) {
    std::vector<Span> spans;
    uint64_t offset = 0;
    uint32_t part = 0;
    const int32_t n = random.below(12);
    for (int32_t i = 0; i < n; i++) {
        if (random.one_in(5)) {
            part++;
            offset = 0;
        }
        offset += static_cast<uint64_t>(random.one_in(2) ? 0 : random.below(50));
        const auto unit = static_cast<uint64_t>(1 + random.below(random.one_in(4) ? 300 : 20));
        const uint64_t nbytes = unit * static_cast<uint64_t>(random.below(30));
        spans.push_back({static_cast<size_t>(i), part, offset, nbytes, unit});
        offset += nbytes;
    }
    return spans;
}

// How far a piece would have to reach to have the next fragment's first unit, too.
bool would_fit(const Piece & piece, const Piece & next, const std::vector<Span> & spans, uint64_t piece_bytes,
               uint64_t max_gap) {
    const Fragment & first = next.fragments.front();
    const Span & span = spans[first.tensor];
    const uint64_t one = std::min(span.unit, span.nbytes - first.tensor_offset);
    const uint64_t end = piece.offset + piece.nbytes;
    return piece.part == next.part && next.offset - end <= max_gap && next.offset + one - piece.offset <= piece_bytes;
}

void check_plan(Random & random) {
    const std::vector<Span> spans = random_spans(random);
    std::vector<Span> shuffled = spans;
    for (size_t i = shuffled.size(); i > 1; i--) {
        std::swap(shuffled[i - 1], shuffled[static_cast<size_t>(random.below(static_cast<int32_t>(i)))]);
    }
    const auto piece_bytes = static_cast<uint64_t>(1 + random.below(200));
    const auto max_gap = static_cast<uint64_t>(random.below(40));
    const std::vector<Piece> pieces = plan_pieces(shuffled, piece_bytes, max_gap);

    std::vector<uint64_t> covered(spans.size(), 0);
    for (size_t i = 0; i < pieces.size(); i++) {
        const Piece & piece = pieces[i];
        CHECK(!piece.fragments.empty());
        uint64_t end = 0;
        for (const Fragment & fragment : piece.fragments) {
            const Span & span = spans[fragment.tensor];
            CHECK(fragment.nbytes > 0);
            CHECK(span.part == piece.part);
            CHECK(piece.offset + fragment.piece_offset == span.offset + fragment.tensor_offset);
            CHECK(fragment.tensor_offset == covered[fragment.tensor]);  // in order, no byte twice
            covered[fragment.tensor] += fragment.nbytes;
            CHECK(covered[fragment.tensor] % span.unit == 0 || covered[fragment.tensor] == span.nbytes);
            CHECK(fragment.piece_offset >= end && fragment.piece_offset - end <= max_gap);
            end = fragment.piece_offset + fragment.nbytes;
        }
        CHECK(piece.fragments.front().piece_offset == 0);
        CHECK(piece.nbytes == end);
        CHECK(piece.nbytes <= piece_bytes ||
              (piece.fragments.size() == 1 && piece.nbytes <= spans[piece.fragments[0].tensor].unit));
        if (i > 0) {
            CHECK(piece.part > pieces[i - 1].part ||
                  (piece.part == pieces[i - 1].part && piece.offset >= pieces[i - 1].offset + pieces[i - 1].nbytes));
            CHECK(!would_fit(pieces[i - 1], piece, spans, piece_bytes, max_gap));
        }
    }
    for (size_t i = 0; i < spans.size(); i++) {
        CHECK(covered[i] == spans[i].nbytes);
    }
}

}  // namespace
}  // namespace orin

int main(int argc, char ** argv) {
    orin::Random random(1);
    const int64_t n = orin::operations(argc, argv, 20000);
    for (int64_t i = 0; i < n; i++) {
        orin::check_plan(random);
    }
    return 0;
}
