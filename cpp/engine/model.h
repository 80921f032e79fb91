// A loaded model: its weights and its vocabulary.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../loader/load_report.h"
#include "ggml-backend.h"
#include "llama.h"

namespace orin {

// The table that tokens are looked up in, as the file has it.
struct TokenTable {
    std::string type;  // of ggml, such as "q4_K"
    int64_t n_columns = 0;
};

struct ModelParams {
    int32_t gpu_layers = -1;  // -1: all; 0: no GPU is opened
    bool use_mmap = true;
    bool vocab_only = false;
    bool check_tensors = false;  // every value and scale is finite
    // Kept on the GPU where all layers are and the GPU can look up in it; llama.cpp keeps it on the CPU.
    std::optional<TokenTable> table_on_gpu;
    bool without_weights = false;  // every tensor gets its place, but neither memory nor contents
};

class Model {
   public:
    // Called with the fraction loaded so far, 0 to 1; false stops the load with Interrupted.
    using Progress = std::function<bool(float)>;

    // Throws LoadError when llama.cpp refuses the file; gguf::ModelFileError, with file and offset, when its data
    // cannot be read, or is not sound where that is checked.
    Model(const std::string & path, const ModelParams & params, const Progress & progress);

    const llama_model * handle() const { return model_.get(); }
    llama_model * handle() { return model_.get(); }

    int32_t n_vocab() const { return llama_vocab_n_tokens(vocab_); }
    // Where the layers are computed: "cpu", or the name of the GPU.
    const std::string & device() const { return device_; }
    // The GPU that computes layers, the first where there are several, or null.
    ggml_backend_dev_t gpu() const { return gpu_; }
    bool has_all_layers_on_gpu() const { return has_all_layers_on_gpu_; }
    // Whether tokens are looked up there, too.
    bool has_table_on_gpu() const { return has_table_on_gpu_; }
    const LoadReport & load_report() const { return load_report_; }
    // True when the model can be driven token by token.
    bool is_decoder() const;
    // And no token sees those behind it, so that each position of a text foretells the next.
    bool is_causal_decoder() const;

    int32_t bos() const { return llama_vocab_bos(vocab_); }  // -1: none
    int32_t eos() const { return llama_vocab_eos(vocab_); }
    bool add_bos() const { return llama_vocab_get_add_bos(vocab_); }
    // Every token that ends an answer.
    std::vector<int32_t> eog_tokens() const;
    // Control tokens and tokens that the user defined, as they are written in text: what parse_special recognizes.
    std::vector<std::pair<std::string, int32_t>> special_tokens() const;

    // text may hold NULs. Special tokens written in it become one token only with parse_special.
    std::vector<int32_t> tokenize(std::string_view text, bool add_special, bool parse_special) const;
    // The bytes of one token; a control token is empty unless special is set.
    std::string token_bytes(int32_t token, bool special) const;
    std::string detokenize(const std::vector<int32_t> & tokens, bool special) const;

   private:
    std::vector<int32_t> tokenize_here(std::string_view text, bool add_special, bool parse_special) const;
    void check_token(int32_t token) const;

    struct Free {
        void operator()(llama_model * model) const { llama_model_free(model); }
    };
    std::unique_ptr<llama_model, Free> model_;
    const llama_vocab * vocab_ = nullptr;
    std::string device_;
    ggml_backend_dev_t gpu_ = nullptr;
    bool has_all_layers_on_gpu_ = false;
    bool has_table_on_gpu_ = false;
    LoadReport load_report_;
};

}  // namespace orin
