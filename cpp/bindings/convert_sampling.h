// Conversions between Python's pairs and the structures of cpp/sampling.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "../sampling/logprobs.h"

namespace orin {

using TokenValues = std::vector<std::pair<int32_t, float>>;

inline std::vector<sampling::Bias> to_bias(const TokenValues & pairs) {
    std::vector<sampling::Bias> bias;
    for (const auto & [token, value] : pairs) {
        bias.push_back({token, value});
    }
    return bias;
}

inline TokenValues to_pairs(const std::vector<sampling::TokenLogprob> & logprobs) {
    TokenValues pairs;
    for (const auto & [token, logprob] : logprobs) {
        pairs.emplace_back(token, logprob);
    }
    return pairs;
}

}  // namespace orin
