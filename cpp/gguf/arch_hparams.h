// The hyperparameters of an architecture that is in the table: what its graph asserts or divides by, beyond what
// every model must keep.
#pragma once

#include "architectures.h"
#include "header.h"
#include "hparams.h"

namespace orin::gguf {

// Throws ModelFileError.
void check_arch_hparams(const Header & header, const HParams & hp, const Architecture & arch);

}  // namespace orin::gguf
