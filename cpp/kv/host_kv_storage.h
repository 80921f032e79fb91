// K and V in the memory of the CPU: the system hands it out as cells are written.
#pragma once

#include "ggml-cpp.h"
#include "kv_storage.h"

namespace orin {

class HostKvStorage : public KvStorage {
   public:
    HostKvStorage(const std::vector<KvLayerSize> & layers, int64_t n_cells);
    ~HostKvStorage() override;

    ggml_backend_buffer_t buffer() const override { return buffer_.get(); }
    KvGrowth growth() const override { return {true, "the system gives memory as cells are written"}; }
    void commit(int64_t n) override;
    void give_back(int64_t first_cell) override;
    // Of the cells that may have been written.
    int64_t committed_cells() const override { return n_committed_; }
    size_t committed_bytes() const override { return static_cast<size_t>(n_committed_) * bytes_per_cell(); }

   private:
    void copy(const char * from, char * to, size_t n_bytes, ggml_backend_t stream) override;
    void read(const char * from, char * bytes, size_t n_bytes) const override;
    void write(const char * bytes, char * to, size_t n_bytes) override;

    int64_t n_committed_ = 0;
    size_t n_bytes_ = 0;
    char * memory_;
    ggml_backend_buffer_ptr buffer_;  // last: refers to the memory
};

}  // namespace orin
