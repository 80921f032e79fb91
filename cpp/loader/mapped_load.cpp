#include "mapped_load.h"

#include <unistd.h>

#include "llama-model-loader.h"
#include "populate.h"
#include "staging.h"

namespace orin {
namespace {

constexpr uint64_t most_piece_bytes = 4u << 20;

bool populate_piece(const llama_mmap & mapping, const Piece & piece) {
    static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    uint8_t * const file = static_cast<uint8_t *>(mapping.addr());
    const uint64_t first = piece.offset / page * page;
    return populate(file + first, piece.offset + piece.nbytes - first);
}

}  // namespace

bool load_mapped(const LoadPart & part, const llama_model_loader & loader) {
    const std::vector<Piece> pieces = plan_pieces(part, most_piece_bytes);
    const size_t n_slots = n_readers() + 2;
    const StagingMemory memory(n_slots, slot_bytes(pieces));
    const auto read = [&](size_t item, size_t slot) {
        const Piece & piece = pieces[item];
        DataFile & file = *part.files[piece.part];
        if (!part.check_tensors && populate_piece(*loader.mappings[piece.part], piece)) {
            return;
        }
        // Not through the mapping: a file that is cut, or that the disk does not give, is an error here.
        const uint8_t * const data = file.read(piece.offset, piece.nbytes, memory.slot(slot));
        if (part.check_tensors) {
            for (const Fragment & fragment : piece.fragments) {
                check_fragment(part, piece, fragment, data);
            }
            populate_piece(*loader.mappings[piece.part], piece);
        }
    };
    Pipeline pipeline(pieces.size(), n_slots, n_readers(), read);
    return consume(pipeline, part, pieces, [&](size_t) { pipeline.release(); });
}

}  // namespace orin
