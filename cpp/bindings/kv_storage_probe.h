// Storage of keys and values without a model: for tests.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../kv/kv_storage.h"
#include "ggml-cpp.h"

namespace orin {

class KvStorageProbe {
   public:
    // On the CPU, or on the first GPU; std::invalid_argument where there is none. row_bytes: of K and V, by layer
    KvStorageProbe(bool on_gpu, const std::vector<std::pair<size_t, size_t>> & row_bytes, int64_t n_cells,
                   bool may_grow);

    KvStorage & storage() { return *storage_; }
    std::string read(int64_t first, int32_t n) const;
    void write(int64_t first, const std::string & bytes);
    // queued: on a stream, else at once.
    void copy(int64_t from, int64_t to, int32_t n, bool queued);
    // For what is queued. Before read() and write().
    void wait();

   private:
    std::unique_ptr<KvStorage> storage_;
    ggml_backend_ptr stream_;
};

}  // namespace orin
