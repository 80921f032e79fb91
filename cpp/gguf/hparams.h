// The hyperparameters of a model: what llama.cpp asserts on, divides by or silently takes is checked here first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "header.h"

namespace orin::gguf {

struct HParams {
    std::string arch;  // general.architecture; also the prefix of the keys

    uint64_t n_embd = 0;
    uint64_t n_layer = 0;
    uint64_t n_expert = 0;
    uint64_t head_k = 0;  // channels of a key head
    uint64_t head_v = 0;  // channels of a value head
    uint64_t n_rot = 0;   // channels of a head that RoPE turns

    // Per layer; empty where the file does not say.
    std::vector<uint64_t> n_head;
    std::vector<uint64_t> n_head_kv;
    std::vector<uint64_t> n_ff;
    std::vector<uint64_t> n_ff_expert;
    std::vector<uint64_t> n_expert_used;

    std::string key(const char * suffix) const { return arch + "." + suffix; }
};

// Throws ModelFileError. A file without tensors holds a vocabulary only: its hyperparameters may be missing.
HParams check_hparams(const Header & header);

}  // namespace orin::gguf
