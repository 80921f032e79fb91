// What patched llama.cpp calls while it quantizes.
#include "../engine/runtime.h"
#include "../gguf/tensor_types.h"
#include "../hooks/include/orin_hooks.h"
#include "ggml.h"
#include "quantize_watch.h"

namespace orin {
namespace {

thread_local QuantizeWatch * watch = nullptr;

std::string type_name(int type) {
    const gguf::TensorType * found = gguf::find_tensor_type(static_cast<uint32_t>(type));
    return found == nullptr ? ggml_type_name(static_cast<ggml_type>(type)) : found->name;
}

}  // namespace

QuantizeWatch::QuantizeWatch(const QuantizeProgress & progress) : progress_(progress) {
    watch = this;
}

QuantizeWatch::~QuantizeWatch() {
    watch = nullptr;
}

QuantizeWatch * QuantizeWatch::current() {
    return watch;
}

void QuantizeWatch::fallback(const ggml_tensor & tensor, int wanted_type) {
    wanted_types_[ggml_get_name(&tensor)] = type_name(wanted_type);
}

void QuantizeWatch::begin_tensor(const ggml_tensor & tensor, int new_type) {
    if (!tensors_.empty()) {
        bytes_before_ += tensors_.back().bytes;
    }
    const auto n_rows = static_cast<uint64_t>(ggml_nrows(&tensor));
    QuantizedTensor found;
    found.name = ggml_get_name(&tensor);
    found.type = type_name(tensor.type);
    found.new_type = type_name(new_type);
    const auto wanted = wanted_types_.find(found.name);
    found.wanted_type = wanted == wanted_types_.end() ? "" : wanted->second;
    found.n_inputs = static_cast<uint64_t>(tensor.ne[0]);
    found.n_matrices = static_cast<uint64_t>(tensor.ne[2]);
    found.n_weights = static_cast<uint64_t>(ggml_nelements(&tensor));
    found.bytes = ggml_nbytes(&tensor);
    found.new_bytes = n_rows * ggml_row_size(static_cast<ggml_type>(new_type), tensor.ne[0]);
    tensors_.push_back(std::move(found));
    bytes_done_ = 0;
    row_bytes_ = ggml_row_size(tensor.type, tensor.ne[0]);
    report();
}

void QuantizeWatch::rows_done(int64_t n_rows) {
    bytes_done_ += static_cast<uint64_t>(n_rows) * row_bytes_;
    report();
}

void QuantizeWatch::report() {
    if (progress_ && !progress_(bytes_before_ + bytes_done_)) {
        stopped_ = true;
        throw Interrupted("quantizing was stopped before it was done");
    }
}

}  // namespace orin

// llama.cpp's quantizer runs nowhere but under a watch.

void orin_quantize_fallback(const ggml_tensor * tensor, int wanted_type) {
    orin::QuantizeWatch::current()->fallback(*tensor, wanted_type);
}

void orin_quantize_tensor(const ggml_tensor * tensor, int new_type) {
    orin::QuantizeWatch::current()->begin_tensor(*tensor, new_type);
}

void orin_quantize_rows(int64_t n_rows) {
    orin::QuantizeWatch::current()->rows_done(n_rows);
}
