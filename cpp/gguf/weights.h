// The tensors of a model: their types, and for the architectures of the table their presence and shapes.
#pragma once

#include <cstdint>

#include "header.h"
#include "hparams.h"

namespace orin::gguf {

// Throws ModelFileError. n_vocab: tokens of the vocabulary.
void check_weights(const Header & header, const HParams & hp, uint64_t n_vocab);

}  // namespace orin::gguf
