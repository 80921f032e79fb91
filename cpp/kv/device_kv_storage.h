// K and V in the memory of a GPU: in ranges of addresses that get memory as cells need it where the driver can do
// that, else in one allocation.
#pragma once

#include "../../cuda/memory_range.h"
#include "ggml-cpp.h"
#include "kv_storage.h"

namespace orin {

class DeviceKvStorage : public KvStorage {
   public:
    DeviceKvStorage(ggml_backend_dev_t device, const std::vector<KvLayerSize> & layers, int64_t n_cells,
                    const std::string & no_growth);

    ggml_backend_buffer_t buffer() const override { return buffer_.get(); }
    KvGrowth growth() const override { return {!ranges_.empty(), how_}; }
    void commit(int64_t n) override;
    void give_back(int64_t first_cell) override;
    size_t committed_bytes() const override;
    int64_t committed_cells() const override;

   private:
    // Returns why not, or "".
    std::string reserve_ranges();
    void allocate_all();
    size_t missing_bytes(int64_t n) const;
    OutOfMemory shortage(size_t missing_bytes, const std::string & problem) const;

    void copy(const char * from, char * to, size_t n_bytes, ggml_backend_t stream) override;
    void read(const char * from, char * bytes, size_t n_bytes) const override;
    void write(const char * bytes, char * to, size_t n_bytes) override;

    ggml_backend_dev_t device_;
    std::string how_;
    ggml_backend_buffer_ptr buffer_;         // all the memory, or a token of it that stands for the ranges
    std::vector<cuda::MemoryRange> ranges_;  // of the pieces, or none
};

}  // namespace orin
