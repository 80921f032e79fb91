#include "kv_storage_probe.h"

#include <stdexcept>

#include "../engine/gpu.h"

namespace orin {

KvStorageProbe::KvStorageProbe(bool on_gpu, const std::vector<std::pair<size_t, size_t>> & row_bytes, int64_t n_cells,
                               bool may_grow) {
    ggml_backend_dev_t device = on_gpu ? first_gpu() : ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (device == nullptr) {
        throw std::invalid_argument("there is no GPU");
    }
    std::vector<KvLayerSize> layers;
    for (const auto & [k, v] : row_bytes) {
        layers.push_back({k, v});
    }
    storage_ = make_kv_storage(device, layers, n_cells, may_grow ? "" : "growth is switched off");
    stream_.reset(ggml_backend_dev_init(device, nullptr));
}

std::string KvStorageProbe::read(int64_t first, int32_t n) const {
    std::string bytes(static_cast<size_t>(n) * storage_->bytes_per_cell(), '\0');
    storage_->read_cells(first, n, bytes.data());
    return bytes;
}

void KvStorageProbe::write(int64_t first, const std::string & bytes) {
    storage_->write_cells(first, static_cast<int32_t>(bytes.size() / storage_->bytes_per_cell()), bytes.data());
}

void KvStorageProbe::copy(int64_t from, int64_t to, int32_t n, bool queued) {
    storage_->copy_cells(from, to, n, queued ? stream_.get() : nullptr);
}

void KvStorageProbe::wait() {
    ggml_backend_synchronize(stream_.get());
}

}  // namespace orin
