#include "special_tokens.h"

#include <optional>
#include <set>
#include <string_view>

#include "keys.h"

namespace orin::gguf {

namespace {

constexpr uint64_t no_token = 0xffffffff;  // -1: some converters write it for "none"

constexpr const char * ids[] = {"bos_token_id",     "eos_token_id",     "eot_token_id",       "eom_token_id",
                                "unknown_token_id", "cls_token_id",     "seperator_token_id", "mask_token_id",
                                "fim_pre_token_id", "fim_suf_token_id", "fim_mid_token_id",   "fim_pad_token_id",
                                "fim_rep_token_id", "fim_sep_token_id", "prefix_token_id",    "suffix_token_id",
                                "middle_token_id"};

constexpr const char * flags[] = {"add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix",
                                  "remove_extra_whitespaces"};

// What llama.cpp takes where the file does not say.
struct Defaults {
    std::optional<uint64_t> bos;
    std::optional<uint64_t> eos;
    std::optional<uint64_t> sep;
    bool add_bos = false;
    bool add_eos = false;
};

// llama.cpp adds the token to these whatever the file says.
bool always_adds_bos(std::string_view model, std::string_view pre) {
    return model == "bert" || model == "gemma4" || pre == "gemma4" || pre == "granite-embed-multi-311m";
}

bool adds_bos(std::string_view pre) {
    static const std::set<std::string_view> names = {"llama3",    "llama-v3",  "llama-bpe",   "falcon3",
                                                     "falcon-h1", "pixtral",   "midm-2.0",    "lfm2",
                                                     "tekken",    "chameleon", "jina-v5-nano"};
    return names.count(pre) > 0;
}

bool has_no_bos(std::string_view pre) {
    return pre == "chatglm-bpe" || pre == "glm4" || pre == "glm5";
}

Defaults defaults_of(const std::string & model, std::string_view pre) {
    switch (tokenizer_kind(model)) {
        case TokenizerKind::spm:
            return {1, 2, {}, true, false};
        case TokenizerKind::wordpiece:
            return {101, {}, 102, false, false};
        case TokenizerKind::unigram:
            return {{}, 1, {}, false, true};
        case TokenizerKind::bpe:
            break;
        case TokenizerKind::other:
            return {};
    }
    if (model == "gemma4") {
        return {};
    }
    return {has_no_bos(pre) ? std::nullopt : std::optional<uint64_t>(11), 11, {}, adds_bos(pre), false};
}

std::string key_of(const char * name) {
    return std::string("tokenizer.ggml.") + name;
}

void check_ids(const Header & header, uint64_t n_tokens) {
    for (const char * name : ids) {
        const Value * value = find_scalar(header, key_of(name), ValueType::u32);
        if (value && value->as_unsigned() >= n_tokens && value->as_unsigned() != no_token) {
            fail_key(key_of(name), *value, text("token ", value->as_unsigned(), ", but the vocabulary has ", n_tokens));
        }
    }
    // Never read when text is generated, and often left stale when a vocabulary is changed.
    find_scalar(header, key_of("padding_token_id"), ValueType::u32);
}

bool flag(const Header & header, const char * name, bool otherwise) {
    const Value * value = find_scalar(header, key_of(name), ValueType::boolean);
    return value ? value->as_unsigned() != 0 : otherwise;
}

// llama.cpp asserts on a token it is to add and does not have.
void require_token(const Header & header, const char * name, const char * added_by, std::optional<uint64_t> otherwise,
                   uint64_t n_tokens) {
    const Value * value = header.find(key_of(name));
    if (value && value->as_unsigned() < n_tokens) {
        return;
    }
    if (otherwise && *otherwise < n_tokens) {
        return;
    }
    fail_key(header, key_of(name), text("no such token, but the tokenizer adds it (", added_by, ")"));
}

}  // namespace

TokenizerKind tokenizer_kind(const std::string & model) {
    if (model == "llama") {
        return TokenizerKind::spm;
    }
    if (model == "bert") {
        return TokenizerKind::wordpiece;
    }
    if (model == "t5") {
        return TokenizerKind::unigram;
    }
    if (model == "gpt2" || model == "gemma4" || model == "hybriddna" || model == "whitespace") {
        return TokenizerKind::bpe;
    }
    return TokenizerKind::other;
}

void check_special_tokens(const Header & header, const std::string & model, uint64_t n_tokens) {
    check_ids(header, n_tokens);
    for (const char * name : flags) {
        find_scalar(header, key_of(name), ValueType::boolean);
    }
    find_array(header, key_of("suppress_tokens"), ValueType::i32);

    const Value * value = header.find("tokenizer.ggml.pre");
    const std::string_view pre = value ? value->as_string() : std::string_view();
    const Defaults defaults = defaults_of(model, pre);
    if (always_adds_bos(model, pre) || flag(header, "add_bos_token", defaults.add_bos)) {
        require_token(header, "bos_token_id", "add_bos_token", defaults.bos, n_tokens);
    }
    if (tokenizer_kind(model) == TokenizerKind::wordpiece) {
        require_token(header, "seperator_token_id", "add_sep_token", defaults.sep, n_tokens);
    }
    if (flag(header, "add_eos_token", defaults.add_eos)) {
        require_token(header, "eos_token_id", "add_eos_token", defaults.eos, n_tokens);
    }
}

}  // namespace orin::gguf
