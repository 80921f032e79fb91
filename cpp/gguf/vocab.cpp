#include "vocab.h"

#include <cmath>
#include <string>
#include <string_view>
#include <unordered_set>

#include "keys.h"
#include "limits.h"
#include "special_tokens.h"

namespace orin::gguf {

namespace {

const std::string tokens_key = "tokenizer.ggml.tokens";
const std::string scores_key = "tokenizer.ggml.scores";
const std::string token_types_key = "tokenizer.ggml.token_type";
const std::string merges_key = "tokenizer.ggml.merges";

constexpr int64_t byte_type = 6;
constexpr int64_t last_token_type = 6;

// llama.cpp takes strings as C strings.
std::string_view up_to_nul(std::string_view bytes) {
    return bytes.substr(0, bytes.find('\0'));
}

std::string check_model(const Header & header) {
    const std::string key = "tokenizer.ggml.model";
    const Value * value = find_scalar(header, key, ValueType::string);
    if (!value) {
        fail_missing(key, "the kind of tokenizer");
    }
    const std::string model(value->as_string());
    if (model == "none" || model == "no_vocab") {
        fail_key(key, *value, "a model without a vocabulary cannot be used for text", Advice::none);
    }
    find_scalar(header, "tokenizer.ggml.pre", ValueType::string);
    return model;
}

// llama.cpp asserts that no two texts are equal and gives empty ones a name.
void check_tokens(const Value & tokens) {
    const Count count{"", "tokens", 1, limits::max_vocab, "max_vocab"};
    check_count(tokens_key, tokens, tokens.count(), count);

    std::unordered_set<std::string_view> seen;
    std::unordered_set<std::string> named;
    seen.reserve(tokens.count());
    uint64_t work = 0;
    for (uint64_t i = 0; i < tokens.count(); ++i) {
        std::string_view word = up_to_nul(tokens.as_string(i));
        if (word.empty()) {
            word = *named.insert(text("[EMPTY_", i, "]")).first;
        }
        if (word.size() > limits::max_token_bytes) {
            fail_key(tokens_key, tokens,
                     text("token ", i, " of ", word.size(), " bytes, more than the limit of ", limits::max_token_bytes,
                          " (max_token_bytes)"));
        }
        work += word.size() * word.size();
        if (work > limits::max_token_work) {
            fail_key(tokens_key, tokens,
                     text("the tokens are too long together: the sum of their squared lengths is "
                          "above the limit of ",
                          limits::max_token_work, " (max_token_work)"));
        }
        if (!seen.insert(word).second) {
            fail_key(tokens_key, tokens, text("token ", i, " '", printable(word), "' is there twice"));
        }
    }
}

void check_length(const std::string & key, const Value & value, uint64_t n_tokens) {
    if (value.count() != n_tokens) {
        fail_key(key, value, text("an array of ", value.count(), " for ", n_tokens, " tokens"));
    }
}

void check_scores(const Header & header, uint64_t n_tokens) {
    const Value * scores = header.find(scores_key);
    if (!scores) {
        return;
    }
    if (!scores->is_array_of(ValueType::f32) && !scores->is_array_of(ValueType::i32)) {
        fail_key(scores_key, *scores, text("of type ", scores->type_name(), ", expected array of f32 or i32"));
    }
    check_length(scores_key, *scores, n_tokens);
    for (uint64_t i = 0; scores->is_float() && i < n_tokens; ++i) {
        if (std::isnan(scores->as_double(i))) {
            fail_key(scores_key, *scores, text("the score of token ", i, " is not a number"));
        }
    }
}

bool is_byte_text(std::string_view word) {
    const auto is_hex = [](char c) { return std::string_view("0123456789ABCDEFabcdef").find(c) != std::string::npos; };
    return word.size() == 6 && word.substr(0, 3) == "<0x" && is_hex(word[3]) && is_hex(word[4]) && word[5] == '>';
}

void check_token_types(const Header & header, const Value & tokens, const std::string & model) {
    const Value * types = find_array(header, token_types_key, ValueType::i32);
    if (!types) {
        return;
    }
    check_length(token_types_key, *types, tokens.count());
    for (uint64_t i = 0; i < tokens.count(); ++i) {
        const int64_t type = types->as_signed(i);
        if (type < 0 || type > last_token_type) {
            fail_key(token_types_key, *types,
                     text("token ", i, " has type ", type, ", expected 0 to ", last_token_type));
        }
        if (type != byte_type) {
            continue;
        }
        if (model == "bert") {
            fail_key(token_types_key, *types, text("token ", i, " is a byte, which a WordPiece vocabulary has not"));
        }
        if (!is_byte_text(tokens.as_string(i))) {
            fail_key(tokens_key, tokens,
                     text("token ", i, " is a byte named '", printable(tokens.as_string(i)),
                          "', expected <0x00> to <0xFF>"));
        }
    }
}

bool needs_merges(const Header & header, const std::string & model) {
    const Value * pre = header.find("tokenizer.ggml.pre");
    return tokenizer_kind(model) == TokenizerKind::bpe && !(pre && pre->as_string() == "kimi-k2");
}

void check_merges(const Header & header, const std::string & model) {
    const Value * merges = find_array(header, merges_key, ValueType::string);
    if (!merges) {
        if (needs_merges(header, model)) {
            fail_missing(merges_key, text("the merges of a '", printable(model), "' tokenizer"));
        }
        return;
    }
    for (uint64_t i = 0; i < merges->count(); ++i) {
        const std::string_view merge = up_to_nul(merges->as_string(i));
        const size_t space = merge.find(' ', 1);
        if (space == std::string_view::npos || space + 1 == merge.size()) {
            fail_key(merges_key, *merges,
                     text("merge ", i, " is '", printable(merge), "', expected two parts with a space between"));
        }
    }
}

// The normalization table of a SentencePiece unigram model: its own length, then that many bytes, then strings.
void check_charsmap(const Header & header) {
    const std::string key = "tokenizer.ggml.precompiled_charsmap";
    const Value * value = header.find(key);
    if (!value) {
        return;
    }
    if (!value->is_array_of(ValueType::u8) && !value->is_array_of(ValueType::i8)) {
        fail_key(key, *value, text("of type ", value->type_name(), ", expected array of u8"));
    }
    uint64_t length = 0;
    for (uint64_t i = 0; i < 4 && i < value->count(); ++i) {
        length |= (value->as_unsigned(i) & 0xff) << (8 * i);
    }
    if (value->count() < 4 || length + 4 >= value->count()) {
        fail_key(key, *value, text("a table of ", length, " bytes in an array of ", value->count()));
    }
}

}  // namespace

uint64_t check_vocab(const Header & header) {
    const std::string model = check_model(header);
    const Value * tokens = find_array(header, tokens_key, ValueType::string);
    if (!tokens) {
        fail_missing(tokens_key, "the vocabulary");
    }
    check_tokens(*tokens);
    check_scores(header, tokens->count());
    check_token_types(header, *tokens, model);
    check_merges(header, model);
    check_charsmap(header);
    check_special_tokens(header, model, tokens->count());
    return tokens->count();
}

}  // namespace orin::gguf
