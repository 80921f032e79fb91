#include "weights.h"

#include <string>

#include "arch_hparams.h"
#include "architectures.h"
#include "layout.h"
#include "tensor_types.h"

namespace orin::gguf {

namespace {

Place place_of(const TensorInfo & tensor) {
    return {Part::tensor, tensor.name, tensor.info_offset};
}

bool begins(const std::string & name, const char * start) {
    return name.rfind(start, 0) == 0;
}

bool ends(const std::string & name, const std::string & end) {
    return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

bool is_vector(const TensorInfo & tensor) {
    return tensor.shape[0] == tensor.elements;
}

// Tables of ids, which some architectures keep as integers beside their weights.
bool is_id_table(const TensorInfo & tensor) {
    return tensor.name == "d2t" || ends(tensor.name, ".ffn_gate_tid2eid.weight");
}

// Vectors are added to or multiplied with activations, matrices multiplied with them: for other types than these
// llama.cpp has no kernel on the CPU and asserts, or calls through null.
void check_type(const TensorInfo & tensor) {
    if (is_id_table(tensor)) {
        return;
    }
    const bool is_factor = begins(tensor.name, "rope_freqs.") || begins(tensor.name, "rope_factors_");
    if ((is_factor || is_vector(tensor)) && tensor.type->id != type_ids::f32) {
        fail(place_of(tensor), text("of type ", tensor.type->name, ", expected F32"), Advice::unsound);
    }
    if (!tensor.type->is_weight) {
        fail(place_of(tensor), text("of type ", tensor.type->name, ", which weights cannot have"), Advice::unsound);
    }
}

// llama.cpp asserts that an NVFP4 matrix with a scale has no bias, and that a scaled output is not the embedding.
void check_nvfp4(const Header & header, const TensorInfo & tensor) {
    if (tensor.type->id != type_ids::nvfp4 || !ends(tensor.name, ".weight")) {
        return;
    }
    const std::string base = tensor.name.substr(0, tensor.name.size() - 7);
    if (header.find_tensor(base + ".scale") && header.find_tensor(base + ".bias")) {
        fail(place_of(tensor), "an NVFP4 matrix with both a scale and a bias", Advice::unsupported);
    }
    const bool scaled_output = header.find_tensor("output.scale") || header.find_tensor("output.input_scale");
    if (tensor.name == "token_embd.weight" && scaled_output && !header.find_tensor("output.weight")) {
        fail(place_of(tensor), "a scale for the output, but no output matrix", Advice::unsupported);
    }
}

}  // namespace

void check_weights(const Header & header, const HParams & hp, uint64_t n_vocab) {
    const Architecture * arch = find_architecture(hp.arch);
    for (const TensorInfo & tensor : header.tensors) {
        check_type(tensor);
        check_nvfp4(header, tensor);
    }
    if (arch) {
        check_arch_hparams(header, hp, *arch);
        check_layout(header, hp, *arch, n_vocab);
    }
}

}  // namespace orin::gguf
