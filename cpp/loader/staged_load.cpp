#include "staged_load.h"

#include <algorithm>
#include <cstring>

#include "../engine/clock.h"
#include "../engine/runtime.h"
#include "ggml-backend-impl.h"
#include "staging.h"
#include "staging_ring.h"

namespace orin {
namespace {

// Small enough that what was read is still in a core's cache when it is repacked.
constexpr uint64_t most_host_piece_bytes = 2u << 20;
constexpr uint64_t most_device_piece_bytes = 8u << 20;

// Some rows of a tensor as a tensor: its groups of rows lie one after another, before and after repacking.
void repack_rows(const TensorSource & source, uint64_t offset, const uint8_t * data, uint64_t nbytes) {
    ggml_tensor rows = *source.tensor;
    rows.data = static_cast<uint8_t *>(source.tensor->data) + offset;
    rows.ne[1] = static_cast<int64_t>(nbytes / ggml_row_size(rows.type, rows.ne[0]));
    rows.ne[2] = 1;
    rows.ne[3] = 1;
    rows.buffer->iface.set_tensor(rows.buffer, &rows, data, 0, nbytes);
}

// What a worker does itself with what it has read.
void put_in_place(const TensorSource & source, uint64_t offset, const uint8_t * data, uint64_t nbytes) {
    if (source.way == Way::rows) {
        repack_rows(source, offset, data, nbytes);
    } else if (source.way == Way::copied) {
        std::memcpy(static_cast<uint8_t *>(source.tensor->data) + offset, data, nbytes);
    }
}

// Reads a piece and has it checked; where its bytes lie.
const uint8_t * read_piece(const LoadPart & part, const Piece & piece, uint8_t * memory) {
    const uint8_t * const data = part.files[piece.part]->read(piece.offset, piece.nbytes, memory);
    if (part.check_tensors) {
        for (const Fragment & fragment : piece.fragments) {
            check_fragment(part, piece, fragment, data);
        }
    }
    return data;
}

}  // namespace

bool load_to_host(const LoadPart & part) {
    const std::vector<Piece> pieces = plan_pieces(part, most_host_piece_bytes);
    const size_t n_slots = n_workers() + 2;
    const StagingMemory memory(n_slots, slot_bytes(pieces));
    const auto work = [&](size_t item, size_t slot) {
        const AbortGuard guard;
        const uint8_t * const data = read_piece(part, pieces[item], memory.slot(slot));
        for (const Fragment & fragment : pieces[item].fragments) {
            put_in_place(part.sources[fragment.tensor], fragment.tensor_offset, data + fragment.piece_offset,
                         fragment.nbytes);
        }
    };
    Pipeline pipeline(pieces.size(), n_slots, n_workers(), work);
    return consume(pipeline, part, pieces, [&](size_t) { pipeline.release(); });
}

bool load_to_device(const LoadPart & part, double & waited_ms) {
    const std::vector<Piece> pieces = plan_pieces(part, most_device_piece_bytes);
    const size_t n_slots = std::min(2 * n_readers(), pieces.size());
    ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(part.sources.front().tensor->buffer);
    StagingRing ring(ggml_backend_buft_get_device(type), n_slots, slot_bytes(pieces));
    std::vector<const uint8_t *> data(n_slots);
    Pipeline pipeline(pieces.size(), n_slots, n_readers(),
                      [&](size_t item, size_t slot) { data[slot] = read_piece(part, pieces[item], ring.slot(slot)); });
    const auto waited = [&](const auto & wait) {
        const double started = now_ms();
        wait();
        waited_ms += now_ms() - started;
    };
    size_t n_released = 0;
    const auto upload = [&](size_t item) {
        const size_t slot = item % n_slots;
        for (const Fragment & fragment : pieces[item].fragments) {
            ring.copy(part.sources[fragment.tensor].tensor, data[slot] + fragment.piece_offset, fragment.tensor_offset,
                      fragment.nbytes);
        }
        ring.mark(slot);
        // The others are being read into.
        while (pipeline.n_held() > n_slots / 2) {
            waited([&] { ring.wait_for(n_released++ % n_slots); });
            pipeline.release();
        }
    };
    const bool is_done = consume(pipeline, part, pieces, upload);
    waited([&] { ring.wait(); });
    return is_done;
}

bool load_at_once(const LoadPart & part) {
    const std::vector<Piece> pieces = plan_pieces(part, most_host_piece_bytes);
    const size_t n_slots = n_readers() + 2;
    const StagingMemory memory(n_slots, slot_bytes(pieces));
    std::vector<const uint8_t *> data(n_slots);
    Pipeline pipeline(pieces.size(), n_slots, n_readers(), [&](size_t item, size_t slot) {
        data[slot] = read_piece(part, pieces[item], memory.slot(slot));
    });
    std::vector<uint8_t> whole;  // the beginning of a tensor
    return consume(pipeline, part, pieces, [&](size_t item) {
        for (const Fragment & fragment : pieces[item].fragments) {
            const TensorSource & source = part.sources[fragment.tensor];
            const uint8_t * const from = data[item % n_slots] + fragment.piece_offset;
            whole.insert(whole.end(), from, from + fragment.nbytes);
            if (whole.size() == source.nbytes) {
                ggml_backend_tensor_set(source.tensor, whole.data(), 0, whole.size());
                whole.clear();
            }
        }
        pipeline.release();
    });
}

}  // namespace orin
