// Which tokens begin and end a text, and whether the tokenizer adds them.
#pragma once

#include <cstdint>
#include <string>

#include "header.h"

namespace orin::gguf {

enum class TokenizerKind { spm, bpe, wordpiece, unigram, other };

// model: tokenizer.ggml.model
TokenizerKind tokenizer_kind(const std::string & model);

// Throws ModelFileError for an id outside the vocabulary, and for a token that is to be added but not there.
void check_special_tokens(const Header & header, const std::string & model, uint64_t n_tokens);

}  // namespace orin::gguf
