#include "type_mix.h"

#include <memory>

#include "../engine/runtime.h"
#include "../gguf/tensor_types.h"
#include "ggml-cpp.h"
#include "ggml.h"
#include "llama-ext.h"
#include "llama.h"
#include "quantize_watch.h"

namespace orin {

std::vector<std::string> matrix_types(const ModelOutline & model, int32_t file_type,
                                      const std::vector<Matrix> & matrices) {
    const AbortGuard guard;
    const QuantizeProgress no_progress;
    const QuantizeWatch watch(no_progress);  // the quantizer speaks to one
    const llama_quant_model_desc description = {
        model.architecture.c_str(),
        model.n_embd,
        model.n_ff,
        model.n_layer,
        model.n_head,
        model.n_head_kv,
        /*n_expert=*/0,
        model.head_dim,
        model.head_dim,
    };
    const std::unique_ptr<llama_model, decltype(&llama_model_free)> mock(llama_quant_model_from_metadata(&description),
                                                                         llama_model_free);
    const llama_model_quantize_params params = llama_model_quantize_default_params();
    const std::unique_ptr<quantize_state_impl, decltype(&llama_quant_free)> state(llama_quant_init(mock.get(), &params),
                                                                                  llama_quant_free);

    const ggml_context_ptr context(ggml_init({matrices.size() * ggml_tensor_overhead(), nullptr, /*no_alloc=*/true}));
    std::vector<ggml_tensor *> tensors;
    for (const Matrix & matrix : matrices) {
        ggml_tensor * tensor = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, matrix.n_inputs, matrix.n_outputs);
        ggml_set_name(tensor, matrix.name.c_str());
        tensors.push_back(tensor);
    }
    std::vector<ggml_type> types(matrices.size());
    llama_quant_compute_types(state.get(), static_cast<llama_ftype>(file_type), tensors.data(), types.data(),
                              types.size());
    std::vector<std::string> names;
    for (const ggml_type type : types) {
        names.emplace_back(gguf::find_tensor_type(static_cast<uint32_t>(type))->name);
    }
    return names;
}

}  // namespace orin
