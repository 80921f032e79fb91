#include "model.h"

#include <algorithm>
#include <array>
#include <exception>

#include "../gguf/error.h"
#include "../hooks/include/orin_hooks.h"
#include "../loader/model_load.h"
#include "deep_stack.h"
#include "gpu.h"
#include "llama-model.h"
#include "runtime.h"

namespace orin {
namespace {

// Some vocabularies split text with std::regex, which recurses once and more for every character of a run.
constexpr size_t max_text_bytes = 64u << 20;
constexpr size_t small_text_bytes = 2048;
constexpr size_t small_text_stack_bytes = 8u << 20;
constexpr size_t stack_bytes_per_text_byte = 1024;

bool is_on_one_gpu(const llama_model & model) {
    return model.devices.size() == 1 && model.n_gpu_layers() > model.hparams.n_layer_all &&
           ggml_backend_dev_type(model.devices[0].dev) != GGML_BACKEND_DEVICE_TYPE_CPU;
}

}  // namespace

Model::Model(const std::string & path, const ModelParams & params, const Progress & progress) {
    AbortGuard guard;
    ModelLoad load(path, params.check_tensors, progress);
    llama_model_params upstream = llama_model_default_params();
    upstream.n_gpu_layers = params.gpu_layers;
    std::array<ggml_backend_dev_t, 1> no_devices{};  // else llama.cpp computes long chunks on a GPU without layers, too
    if (params.gpu_layers == 0) {
        upstream.devices = no_devices.data();
    }
    upstream.no_alloc = params.without_weights;
    upstream.load_mode = params.use_mmap && !params.without_weights ? LLAMA_LOAD_MODE_AUTO : LLAMA_LOAD_MODE_NONE;
    upstream.vocab_only = params.vocab_only;
    upstream.progress_callback = orin_load_progress;
    upstream.progress_callback_user_data = &load;
    ggml_backend_dev_t gpu = params.gpu_layers == 0 ? nullptr : first_gpu();
    std::vector<llama_model_tensor_buft_override> places;
    if (gpu != nullptr && params.table_on_gpu && is_only_gpu(gpu) &&
        can_look_up(gpu, params.table_on_gpu->type, params.table_on_gpu->n_columns)) {
        places = {{"^token_embd\\.weight$", ggml_backend_dev_buffer_type(gpu)}, {nullptr, nullptr}};
        upstream.tensor_buft_overrides = places.data();
    }
    std::string reason;
    try {
        model_.reset(llama_model_load_from_file(path.c_str(), upstream));
    } catch (const Aborted & aborted) {
        reason = aborted.what();
    }
    if (load.was_stopped()) {
        throw Interrupted("loading was stopped before it was done: " + path);
    }
    if (load.error() != nullptr) {
        try {
            std::rethrow_exception(load.error());
        } catch (const gguf::ModelFileError &) {
            throw;
        } catch (const std::bad_alloc &) {
            throw EngineError(path + ": no memory is left to read it into: close programs, or choose a smaller model");
        } catch (const std::exception & error) {
            reason = error.what();
        }
    }
    if (!model_) {
        reason = reason.empty() ? guard.first_error() : reason;
        const std::string what = path + ": llama.cpp cannot load this model";
        if (gpu != nullptr && is_lack_of_memory(reason)) {
            throw gpu_error(gpu, what, reason,
                            "Choose a smaller model, or leave layers to the CPU (-ngl/--gpu-layers).");
        }
        throw LoadError(what + (reason.empty() ? "" : ": " + reason));
    }
    vocab_ = llama_model_get_vocab(model_.get());
    device_ = gpu == nullptr ? "cpu" : ggml_backend_dev_description(gpu);
    gpu_ = gpu;
    has_all_layers_on_gpu_ = gpu != nullptr && is_on_one_gpu(*model_);
    has_table_on_gpu_ = has_all_layers_on_gpu_ && !places.empty();
    load_report_ = load.summary();
}

bool Model::is_decoder() const {
    return llama_model_has_decoder(model_.get()) && !llama_model_has_encoder(model_.get()) &&
           !llama_model_is_diffusion(model_.get());
}

bool Model::is_causal_decoder() const {
    return is_decoder() && model_->hparams.causal_attn;
}

std::vector<int32_t> Model::eog_tokens() const {
    std::vector<int32_t> result;
    for (int32_t token = 0; token < n_vocab(); ++token) {
        if (llama_vocab_is_eog(vocab_, token)) {
            result.push_back(token);
        }
    }
    return result;
}

std::vector<std::pair<std::string, int32_t>> Model::special_tokens() const {
    constexpr int special = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED | LLAMA_TOKEN_ATTR_UNKNOWN;
    std::vector<std::pair<std::string, int32_t>> result;
    for (int32_t token = 0; token < n_vocab(); ++token) {
        if (llama_vocab_get_attr(vocab_, token) & special) {
            result.emplace_back(llama_vocab_get_text(vocab_, token), token);
        }
    }
    return result;
}

std::vector<int32_t> Model::tokenize(std::string_view text, bool add_special, bool parse_special) const {
    if (text.size() > max_text_bytes) {
        throw EngineError("the text has " + std::to_string(text.size()) + " bytes, more than the limit of " +
                          std::to_string(max_text_bytes) + ": split it");
    }
    std::vector<int32_t> tokens;
    const auto work = [&] { tokens = tokenize_here(text, add_special, parse_special); };
    if (text.size() <= small_text_bytes) {
        work();
    } else {
        run_on_stack(small_text_stack_bytes + text.size() * stack_bytes_per_text_byte, work);
    }
    return tokens;
}

std::vector<int32_t> Model::tokenize_here(std::string_view text, bool add_special, bool parse_special) const {
    const auto into = [&](std::vector<int32_t> & tokens) {
        return llama_tokenize(vocab_, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                              static_cast<int32_t>(tokens.size()), add_special, parse_special);
    };
    // A byte gives at most one token; the two more are what add_special puts before and after.
    std::vector<int32_t> tokens(text.size() + 2);
    try {
        int32_t count = into(tokens);
        if (count < 0) {  // it says how many there are
            tokens.resize(static_cast<size_t>(-static_cast<int64_t>(count)));
            count = into(tokens);
        }
        tokens.resize(static_cast<size_t>(std::max(count, 0)));
    } catch (const std::exception & error) {
        throw EngineError(std::string("this text cannot be tokenized (") + error.what() + "): is it valid UTF-8?");
    }
    return tokens;
}

std::string Model::token_bytes(int32_t token, bool special) const {
    check_token(token);
    std::string piece(64, '\0');
    int32_t length = llama_token_to_piece(vocab_, token, piece.data(), static_cast<int32_t>(piece.size()), 0, special);
    if (length < 0) {
        piece.resize(static_cast<size_t>(-length));
        length = llama_token_to_piece(vocab_, token, piece.data(), static_cast<int32_t>(piece.size()), 0, special);
    }
    piece.resize(length < 0 ? 0 : static_cast<size_t>(length));
    return piece;
}

std::string Model::detokenize(const std::vector<int32_t> & tokens, bool special) const {
    for (int32_t token : tokens) {
        check_token(token);
    }
    // For some vocabularies of this type llama.cpp would take away spaces before punctuation.
    if (llama_vocab_type(vocab_) == LLAMA_VOCAB_TYPE_BPE) {
        std::string text;
        for (const int32_t token : tokens) {
            text += token_bytes(token, special);
        }
        return text;
    }
    std::string text(tokens.size() * 8 + 16, '\0');
    const auto count = static_cast<int32_t>(tokens.size());
    int32_t length =
        llama_detokenize(vocab_, tokens.data(), count, text.data(), static_cast<int32_t>(text.size()), false, special);
    if (length < 0) {
        text.resize(static_cast<size_t>(-length));
        length = llama_detokenize(vocab_, tokens.data(), count, text.data(), static_cast<int32_t>(text.size()), false,
                                  special);
    }
    text.resize(length < 0 ? 0 : static_cast<size_t>(length));
    return text;
}

void Model::check_token(int32_t token) const {
    if (token < 0 || token >= n_vocab()) {
        throw EngineError("token id " + std::to_string(token) + " is outside the vocabulary of " +
                          std::to_string(n_vocab()) + " tokens");
    }
}

}  // namespace orin
