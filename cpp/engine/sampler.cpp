#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace orin {
namespace {

bool changes_logits(const SamplingParams & params) {
    const bool penalties =
        params.penalty_window != 0 &&
        (params.repeat_penalty != 1.0f || params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f);
    return penalties || !params.logit_bias.empty();
}

}  // namespace

Sampler::Sampler(const SamplingParams & params, int32_t n_vocab) : n_vocab_(n_vocab) {
    const bool greedy = params.temperature == 0.0f;
    if (greedy && !changes_logits(params)) {
        return;
    }
    candidates_.resize(static_cast<size_t>(n_vocab));
    chain_.reset(llama_sampler_chain_init(llama_sampler_chain_default_params()));
    const auto add = [this](llama_sampler * sampler) { llama_sampler_chain_add(chain_.get(), sampler); };

    add(llama_sampler_init_penalties(n_vocab, params.penalty_window, params.repeat_penalty, params.frequency_penalty,
                                     params.presence_penalty));
    if (!params.logit_bias.empty()) {
        std::vector<llama_logit_bias> bias;
        for (const auto & [token, value] : params.logit_bias) {
            bias.push_back({token, value});
        }
        add(llama_sampler_init_logit_bias(n_vocab, static_cast<int32_t>(bias.size()), bias.data()));
    }
    if (greedy) {
        add(llama_sampler_init_greedy());
        return;
    }
    add(llama_sampler_init_top_k(params.top_k));
    add(llama_sampler_init_top_p(params.top_p, 1));
    add(llama_sampler_init_min_p(params.min_p, 1));
    add(llama_sampler_init_temp(params.temperature));
    add(llama_sampler_init_dist(params.seed));
}

void Sampler::see(int32_t token) {
    if (chain_) {
        llama_sampler_accept(chain_.get(), token);
    }
}

int32_t Sampler::sample(const float * logits) {
    if (!chain_) {
        return static_cast<int32_t>(std::max_element(logits, logits + n_vocab_) - logits);
    }
    for (int32_t token = 0; token < n_vocab_; ++token) {
        candidates_[static_cast<size_t>(token)] = {token, logits[token], 0.0f};
    }
    llama_token_data_array array{candidates_.data(), candidates_.size(), -1, false};
    llama_sampler_apply(chain_.get(), &array);
    const int32_t token = array.data[array.selected].id;
    llama_sampler_accept(chain_.get(), token);
    return token;
}

std::vector<TokenLogprob> top_logprobs(const float * logits, int32_t n_vocab, int32_t n, int32_t chosen) {
    const float highest = *std::max_element(logits, logits + n_vocab);
    double sum = 0.0;
    for (int32_t token = 0; token < n_vocab; ++token) {
        sum += std::exp(static_cast<double>(logits[token] - highest));
    }
    const auto log_sum = static_cast<float>(std::log(sum)) + highest;

    n = std::clamp(n, 0, n_vocab);
    std::vector<int32_t> order(static_cast<size_t>(n_vocab));
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + n, order.end(), [logits](int32_t a, int32_t b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    });
    std::vector<TokenLogprob> result;
    for (int32_t i = 0; i < n; ++i) {
        result.push_back({order[static_cast<size_t>(i)], logits[order[static_cast<size_t>(i)]] - log_sum});
    }
    result.push_back({chosen, logits[chosen] - log_sum});
    return result;
}

}  // namespace orin
