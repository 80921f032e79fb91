// The transformers whose tensors the preflight knows. Facts of the pinned llama.cpp.
#pragma once

#include <string>
#include <vector>

#include "hparams.h"

namespace orin::gguf {

// A size that follows from the hyperparameters.
enum class Size { embd, vocab, query, kv, qkv, head, ff, two_ff, ff_expert, expert };

struct TensorRule {
    const char * name;  // in a layer: what follows "blk.N."
    std::vector<Size> shape;
};

// How an architecture differs from a plain llama.
enum Trait : unsigned {
    whole_head_rope = 1,  // asserted: RoPE turns all of a head's channels
    qk_norm = 2,          // query and key heads are normalized
    post_norms = 4,       // norms behind attention and feed-forward too
    fused_gate = 8,       // ffn_up holds the gate too
    expert_layers = 16,   // experts always, of a width of their own
    sliding_window = 32,  // asserted: some layer has a window, if the file gives one
    always_window = 64,   // the window has a default
};

struct Architecture {
    const char * name;
    unsigned traits;

    bool has(Trait trait) const { return (traits & trait) != 0; }
};

// nullptr for an architecture that is not in the table: llama.cpp itself then says what is missing.
const Architecture * find_architecture(const std::string & name);

// Tensors every file of the architecture must have, outside the layers and in each of them.
std::vector<TensorRule> model_tensors();
std::vector<TensorRule> layer_tensors(const Architecture & arch, const HParams & hp);

// The attention's input matrices: one of these sets.
TensorRule fused_qkv();
std::vector<TensorRule> separate_qkv();

}  // namespace orin::gguf
