#include "load_part.h"

#include <algorithm>
#include <thread>

#include "../gguf/error.h"
#include "not_finite.h"

namespace orin {
namespace {

constexpr uint64_t least_piece_bytes = 1u << 20;
constexpr uint64_t pieces_of_small_part = 32;
// Reading as much as this costs less than another read.
constexpr uint64_t largest_gap = 64u << 10;

uint64_t unit_of(const TensorSource & source) {
    if (source.way == Way::rows) {
        return ggml_row_size(source.tensor->type, source.tensor->ne[0]) * rows_repacked_at_once;
    }
    return ggml_type_size(source.tensor->type);
}

}  // namespace

std::vector<Piece> plan_pieces(const LoadPart & part, uint64_t most_bytes) {
    std::vector<Span> spans;
    uint64_t total = 0;
    for (size_t i = 0; i < part.sources.size(); i++) {
        const TensorSource & source = part.sources[i];
        spans.push_back({i, source.part, source.offset, source.nbytes, unit_of(source)});
        total += source.nbytes;
    }
    // A small model, too, is read by several threads, and needs less memory to do it.
    const uint64_t piece_bytes = std::clamp(total / pieces_of_small_part, least_piece_bytes, most_bytes);
    return plan_pieces(std::move(spans), piece_bytes, largest_gap);
}

size_t n_readers() {
    return 4;
}

size_t n_workers() {
    return std::clamp<size_t>(std::thread::hardware_concurrency(), n_readers(), 16);
}

void check_fragment(const LoadPart & part, const Piece & piece, const Fragment & fragment, const uint8_t * data) {
    const TensorSource & source = part.sources[fragment.tensor];
    const gguf::TensorType * const type = gguf::find_tensor_type(static_cast<uint32_t>(source.tensor->type));
    const uint8_t * const values = data + fragment.piece_offset;
    const auto bad = type == nullptr ? std::nullopt : find_not_finite(*type, values, fragment.nbytes);
    if (!bad) {
        return;
    }
    const uint64_t at = piece.offset + fragment.piece_offset + *bad;
    const std::string name = ggml_get_name(source.tensor);
    throw gguf::ModelFileError(gguf::text("tensor '", gguf::printable(name), "' at byte ", at,
                                          ": it has values that are not finite. The file is damaged: download it "
                                          "again."),
                               name, at)
        .in_file(part.files[source.part]->path());
}

}  // namespace orin
