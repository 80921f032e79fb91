#include "paged_space.h"

#include <random>
#include <string>

#include "runtime.h"

namespace orin {
namespace {

PagedKvConfig pages_config(const PagedSpaceConfig & config) {
    PagedKvConfig pages;
    // The sequence in full, a page to copy on write, and the scratch page.
    pages.n_pages = (config.n_ctx - 1) / config.page_size + 1 + 2;
    pages.page_size = config.page_size;
    pages.max_sequences = 1;
    pages.max_tokens = config.n_ctx;
    pages.prefix_cache = config.prefix_cache;
    std::random_device random;
    pages.hash_seed = uint64_t{random()} << 32 | random();
    return pages;
}

PagedHookConfig hook_config(const PagedSpaceConfig & config) {
    PagedHookConfig hook;
    hook.max_sequences = 1;
    hook.max_tokens = config.n_ctx;
    hook.max_step_tokens = config.chunk_size;
    hook.n_threads = config.n_threads;
    hook.attention = config.attention;
    return hook;
}

}  // namespace

PagedSpace::PagedSpace(const PagedSpaceConfig & config)
    : config_(config),
      pages_(pages_config(config)),
      pool_(pages_),
      hook_(pool_, hook_config(config)),
      sequence_(pages_.open()) {}

void PagedSpace::make_contexts(const MakeContext & make_context) {
    prefill_ = make_context(config_.chunk_size);
    if (pool_.storage() == nullptr) {
        throw EngineError("the model's memory is not a plain KV cache");
    }
    decode_ = make_context(1);
}

llama_context * PagedSpace::context_for(int32_t n_tokens) {
    return n_tokens == 1 ? decode_.get() : prefill_.get();
}

void PagedSpace::reuse(const std::vector<int32_t> & prompt) {
    const int32_t common = common_prefix(prompt);
    const auto n_prompt = static_cast<int32_t>(prompt.size());
    if (pages_.match_prefix(prompt.data(), n_prompt).n_tokens <= common) {
        truncate(common);
        return;
    }
    pages_.close(sequence_);
    sequence_ = pages_.open();
    const int32_t n_found = pages_.adopt_prefix(sequence_, prompt.data(), n_prompt);
    tokens_.assign(prompt.begin(), prompt.begin() + n_found);
}

void PagedSpace::truncate(int32_t n_keep) {
    if (n_keep < static_cast<int32_t>(tokens_.size())) {
        tokens_.resize(static_cast<size_t>(pages_.truncate(sequence_, n_keep)));
    }
}

void PagedSpace::forget() {
    truncate(0);
    pages_.set_budget(0);
    pages_.set_budget(pages_.n_pages() - 1);
    pool_.trim();
}

void PagedSpace::place(const int32_t * tokens, int32_t n_tokens) {
    if (!pages_.append(sequence_, tokens, n_tokens)) {
        throw EngineError("no room in the KV cache for " + std::to_string(n_tokens) + " more tokens");
    }
    pool_.copy_pages();
}

void PagedSpace::commit(const int32_t * tokens, int32_t n_tokens) {
    pages_.commit(sequence_);
    tokens_.insert(tokens_.end(), tokens, tokens + n_tokens);
}

void PagedSpace::undo() {
    pages_.truncate(sequence_, static_cast<int32_t>(tokens_.size()));
}

}  // namespace orin
