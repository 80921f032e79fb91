// What llama.cpp's quantizer does on this thread, as its hooks tell it.
#pragma once

#include <unordered_map>

#include "quantize.h"

struct ggml_tensor;

namespace orin {

// While one lives, the hooks on its thread speak to it.
class QuantizeWatch {
   public:
    explicit QuantizeWatch(const QuantizeProgress & progress);
    ~QuantizeWatch();
    QuantizeWatch(const QuantizeWatch &) = delete;
    QuantizeWatch & operator=(const QuantizeWatch &) = delete;

    static QuantizeWatch * current();

    void fallback(const ggml_tensor & tensor, int wanted_type);
    void begin_tensor(const ggml_tensor & tensor, int new_type);
    void rows_done(int64_t n_rows);

    // Whether the progress callback asked to stop.
    bool stopped() const { return stopped_; }
    std::vector<QuantizedTensor> take_tensors() { return std::move(tensors_); }

   private:
    void report();

    const QuantizeProgress & progress_;
    std::unordered_map<std::string, std::string> wanted_types_;  // by tensor
    std::vector<QuantizedTensor> tensors_;
    uint64_t bytes_before_ = 0;  // of the tensors before the one in work
    uint64_t bytes_done_ = 0;    // of that one
    uint64_t row_bytes_ = 0;
    bool stopped_ = false;
};

}  // namespace orin
