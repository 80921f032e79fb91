// A load of a model whose tensors we read ourselves: what llama.cpp's load hook calls, and what is kept of it.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "data_file.h"
#include "load_report.h"
#include "tensor_source.h"

namespace orin {

class ModelLoad {
   public:
    // Called with the fraction of the tensors' bytes loaded so far, 0 to 1; false stops the load.
    using Progress = std::function<bool(float)>;

    // `path` is the file, or the first of several, for messages.
    ModelLoad(std::string path, bool check_tensors, Progress progress);

    // What the hooks are called for. An exception is kept, and stops the load.
    bool load_tensors(llama_model_loader & loader, ggml_context * tensors,
                      const std::unordered_map<uint32_t, ggml_backend_buffer *> & buffers);
    bool report(float fraction);

    bool was_stopped() const { return was_stopped_; }
    // Why the load of tensors failed, or null.
    const std::exception_ptr & error() const { return error_; }
    LoadReport summary() const;

   private:
    using Files = std::vector<std::unique_ptr<DataFile>>;

    bool load_all(llama_model_loader & loader, ggml_context * tensors,
                  const std::unordered_map<uint32_t, ggml_backend_buffer *> & buffers);
    bool load_ways(llama_model_loader & loader, const std::vector<TensorSource> & all);
    Files & files_of(const llama_model_loader & loader, Caching caching);

    const std::string path_;
    const bool check_tensors_;
    const Progress progress_;

    Files cached_;  // opened when first used
    Files bypassing_;
    bool was_stopped_ = false;
    std::exception_ptr error_;
    LoadReport report_;
};

}  // namespace orin
