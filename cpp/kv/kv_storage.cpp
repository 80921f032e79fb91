#include "kv_storage.h"

#include <cstring>

#include "host_kv_storage.h"
#ifdef ORIN_CUDA
#include "device_kv_storage.h"
#endif

namespace orin {

KvStorage::KvStorage(const std::vector<KvLayerSize> & layers, int64_t n_cells) : n_cells_(n_cells) {
    for (const KvLayerSize & size : layers) {
        bytes_per_cell_ += size.k_row_bytes + size.v_row_bytes;
        pieces_.push_back({size.k_row_bytes, nullptr});
        pieces_.push_back({size.v_row_bytes, nullptr});
    }
}

void KvStorage::copy_cells(int64_t from, int64_t to, int32_t n, ggml_backend_t stream) {
    for (const Piece & piece : pieces_) {
        copy(piece.data + static_cast<size_t>(from) * piece.row_bytes,
             piece.data + static_cast<size_t>(to) * piece.row_bytes, static_cast<size_t>(n) * piece.row_bytes, stream);
    }
}

void KvStorage::read_cells(int64_t first, int32_t n, char * bytes) const {
    std::vector<char> rows;
    for (const Piece & piece : pieces_) {
        rows.resize(static_cast<size_t>(n) * piece.row_bytes);
        read(piece.data + static_cast<size_t>(first) * piece.row_bytes, rows.data(), rows.size());
        for (size_t i = 0; i < static_cast<size_t>(n); i++) {
            std::memcpy(bytes + i * bytes_per_cell_, rows.data() + i * piece.row_bytes, piece.row_bytes);
        }
        bytes += piece.row_bytes;
    }
}

void KvStorage::write_cells(int64_t first, int32_t n, const char * bytes) {
    std::vector<char> rows;
    for (const Piece & piece : pieces_) {
        rows.resize(static_cast<size_t>(n) * piece.row_bytes);
        for (size_t i = 0; i < static_cast<size_t>(n); i++) {
            std::memcpy(rows.data() + i * piece.row_bytes, bytes + i * bytes_per_cell_, piece.row_bytes);
        }
        write(rows.data(), piece.data + static_cast<size_t>(first) * piece.row_bytes, rows.size());
        bytes += piece.row_bytes;
    }
}

std::unique_ptr<KvStorage> make_kv_storage(ggml_backend_dev_t device, const std::vector<KvLayerSize> & layers,
                                           int64_t n_cells, const std::string & no_growth) {
    if (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) {
        return std::make_unique<HostKvStorage>(layers, n_cells);
    }
#ifdef ORIN_CUDA
    return std::make_unique<DeviceKvStorage>(device, layers, n_cells, no_growth);
#else
    (void)no_growth;
    throw std::logic_error("this build has no GPU");
#endif
}

}  // namespace orin
