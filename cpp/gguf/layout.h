// Presence and shapes of the tensors of an architecture that is in the table.
#pragma once

#include <cstdint>

#include "architectures.h"
#include "header.h"
#include "hparams.h"

namespace orin::gguf {

// Throws ModelFileError. PRECOND: check_arch_hparams passed
void check_layout(const Header & header, const HParams & hp, const Architecture & arch, uint64_t n_vocab);

}  // namespace orin::gguf
