#include "quantize.h"

#include <algorithm>
#include <cstring>
#include <regex>
#include <stdexcept>

#include "../engine/runtime.h"
#include "../gguf/tensor_types.h"
#include "ggml.h"
#include "llama.h"
#include "quantize_watch.h"

namespace orin {
namespace {

const gguf::TensorType & weight_type(const std::string & name) {
    const gguf::TensorType * type = gguf::find_tensor_type(name);
    if (type == nullptr || !type->is_weight) {
        throw std::invalid_argument("a tensor cannot have the type " + name + ": name one such as Q8_0, Q6_K or F16");
    }
    return *type;
}

ggml_type type_named(const std::string & name) {
    return static_cast<ggml_type>(weight_type(name).id);
}

void check_pattern(const std::string & pattern) {
    try {
        const std::regex compiled(pattern);
    } catch (const std::regex_error & error) {
        throw std::invalid_argument("'" + pattern + "' is not a regular expression: " + error.what());
    }
}

llama_model_kv_override override_of(const std::string & key) {
    llama_model_kv_override result{};
    std::strncpy(result.key, key.c_str(), sizeof(result.key) - 1);
    return result;
}

// llama.cpp's parameters, and the arrays that they point to.
struct UpstreamParams {
    explicit UpstreamParams(const QuantizeParams & from) {
        params.ftype = static_cast<llama_ftype>(from.file_type);
        params.only_copy = from.only_copy;
        params.pure = from.pure;
        params.allow_requantize = from.allow_requantize;
        params.nthread = from.threads;
        params.max_buf_size = from.buffer_bytes;
        if (from.output_type) {
            params.output_tensor_type = type_named(*from.output_type);
        }
        if (from.embedding_type) {
            params.token_embedding_type = type_named(*from.embedding_type);
        }
        for (const auto & [pattern, type] : from.type_patterns) {
            check_pattern(pattern);
            patterns.push_back({pattern.c_str(), type_named(type)});
        }
        for (const Importance & entry : from.importance) {
            importance.push_back({entry.tensor.c_str(), entry.weights, entry.n_weights});
        }
        for (const auto & [key, text] : from.text_metadata) {
            llama_model_kv_override value = override_of(key);
            value.tag = LLAMA_KV_OVERRIDE_TYPE_STR;
            std::strncpy(value.val_str, text.c_str(), sizeof(value.val_str) - 1);
            metadata.push_back(value);
        }
        for (const auto & [key, number] : from.number_metadata) {
            llama_model_kv_override value = override_of(key);
            value.tag = LLAMA_KV_OVERRIDE_TYPE_INT;
            value.val_i64 = number;
            metadata.push_back(value);
        }
        if (!patterns.empty()) {
            patterns.push_back({nullptr, GGML_TYPE_COUNT});
            params.tt_overrides = patterns.data();
        }
        if (!importance.empty()) {
            importance.push_back({nullptr, nullptr, 0});
            params.imatrix = importance.data();
        }
        if (!metadata.empty()) {
            metadata.push_back(override_of(""));
            params.kv_overrides = metadata.data();
        }
    }
    UpstreamParams(const UpstreamParams &) = delete;
    UpstreamParams & operator=(const UpstreamParams &) = delete;

    llama_model_quantize_params params = llama_model_quantize_default_params();
    std::vector<llama_model_tensor_override> patterns;
    std::vector<llama_model_imatrix_data> importance;
    std::vector<llama_model_kv_override> metadata;
};

// The cause, without the names of the functions that report it.
std::string cause_of(const std::string & logged) {
    const std::string marker = "failed to quantize: ";
    const size_t at = logged.rfind(marker);
    return at == std::string::npos ? logged : logged.substr(at + marker.size());
}

std::vector<QuantizedTensor> run(const std::string & source, const std::string & out, const UpstreamParams & upstream,
                                 const QuantizeProgress & progress) {
    AbortGuard guard;
    QuantizeWatch watch(progress);
    if (llama_model_quantize(source.c_str(), out.c_str(), &upstream.params) != 0) {
        if (watch.stopped()) {
            throw Interrupted("quantizing was stopped before it was done: " + source);
        }
        const std::string cause = cause_of(guard.first_error());
        if (cause.find("basic_ios") != std::string::npos || cause.find("basic_filebuf") != std::string::npos) {
            throw EngineError("cannot write " + out);
        }
        throw LoadError(source + ": llama.cpp cannot quantize this model: " + cause);
    }
    return watch.take_tensors();
}

}  // namespace

std::vector<QuantizedTensor> plan_quantization(const std::string & source, const QuantizeParams & params) {
    UpstreamParams upstream(params);
    upstream.params.dry_run = true;
    const std::vector<QuantizedTensor> tensors = run(source, "", upstream, {});
    for (const auto & [pattern, type] : params.type_patterns) {
        const std::regex compiled(pattern);
        const bool is_used = std::any_of(tensors.begin(), tensors.end(), [&](const QuantizedTensor & tensor) {
            return std::regex_search(tensor.name, compiled);
        });
        if (!is_used) {
            throw std::invalid_argument("no tensor's name has '" + pattern + "' in it");
        }
    }
    return tensors;
}

std::vector<QuantizedTensor> quantize(const std::string & source, const std::string & out,
                                      const QuantizeParams & params, const QuantizeProgress & progress) {
    return run(source, out, UpstreamParams(params), progress);
}

bool needs_importance(const std::string & type) {
    return ggml_quantize_requires_imatrix(type_named(type));
}

uint32_t block_elements(const std::string & type) {
    return weight_type(type).block_elements;
}

}  // namespace orin
