#include "chain_probe.h"

namespace orin {

ChainProbe::ChainProbe(const sampling::Params & params, int32_t penalty_window, int32_t n_vocab)
    : chain_(llama_sampler_chain_init(llama_sampler_chain_default_params())),
      candidates_(static_cast<size_t>(n_vocab)) {
    const auto add = [this](llama_sampler * sampler) { llama_sampler_chain_add(chain_.get(), sampler); };
    add(llama_sampler_init_penalties(n_vocab, penalty_window, params.repeat_penalty, params.frequency_penalty,
                                     params.presence_penalty));
    if (params.temperature == 0.0f) {
        add(llama_sampler_init_greedy());
        return;
    }
    add(llama_sampler_init_top_k(params.top_k));
    add(llama_sampler_init_top_p(params.top_p, 1));
    add(llama_sampler_init_min_p(params.min_p, 1));
    add(llama_sampler_init_temp(params.temperature));
    add(llama_sampler_init_dist(static_cast<uint32_t>(params.seed)));
}

void ChainProbe::see(int32_t token) {
    llama_sampler_accept(chain_.get(), token);
}

int32_t ChainProbe::sample(const float * logits) {
    const auto n_vocab = static_cast<int32_t>(candidates_.size());
    for (int32_t token = 0; token < n_vocab; ++token) {
        candidates_[static_cast<size_t>(token)] = {token, logits[token], 0.0f};
    }
    llama_token_data_array array{candidates_.data(), candidates_.size(), -1, false};
    llama_sampler_apply(chain_.get(), &array);
    return array.data[array.selected].id;
}

}  // namespace orin
