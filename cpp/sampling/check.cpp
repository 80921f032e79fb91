#include "check.h"

#include <algorithm>
#include <cfloat>
#include <limits>
#include <string>

#include "rank_key.h"

namespace orin::sampling {
namespace {

void require(bool ok, const char * name, double value, const char * expected) {
    if (!ok) {
        throw RowError(std::string(name) + " is " + std::to_string(value) + ": expected " + expected);
    }
}

void check(const Params & params) {
    require(params.temperature >= 0 && params.temperature <= FLT_MAX, "temperature", params.temperature,
            "0 or more, finite");
    require(params.top_k >= 0, "top_k", params.top_k, "0 (all) or more");
    require(params.top_p >= 0 && params.top_p <= 1, "top_p", params.top_p, "0 … 1");
    require(params.min_p >= 0 && params.min_p <= 1, "min_p", params.min_p, "0 … 1");
    require(params.repeat_penalty > 0 && params.repeat_penalty <= max_penalty, "repeat_penalty", params.repeat_penalty,
            "above 0, to 100");
    const auto is_penalty = [](float value) { return value >= -max_penalty && value <= max_penalty; };
    require(is_penalty(params.frequency_penalty), "frequency_penalty", params.frequency_penalty, "-100 … 100");
    require(is_penalty(params.presence_penalty), "presence_penalty", params.presence_penalty, "-100 … 100");
    require(params.order == Order::orin || params.order == Order::llama, "order", static_cast<int32_t>(params.order),
            "0 (orin) or 1 (llama)");
}

void check_token(int32_t token, int32_t n_vocab, const char * where) {
    if (token < 0 || token >= n_vocab) {
        throw RowError("token " + std::to_string(token) + " of the " + where + " is outside the vocabulary of " +
                       std::to_string(n_vocab) + " tokens");
    }
}

}  // namespace

void check(const Row & row, int32_t max_vocab) {
    check(row.params);
    require(row.n_vocab >= 1 && row.n_vocab <= max_vocab, "n_vocab", row.n_vocab, "1 … what the workspace is for");
    for (int32_t i = 0; i < row.n_recent; ++i) {
        check_token(row.recent[i], row.n_vocab, "recent ones");
    }
    for (int32_t i = 0; i < row.n_bias; ++i) {
        check_token(row.bias[i].token, row.n_vocab, "logit bias");
        require(row.bias[i].value < std::numeric_limits<float>::infinity(), "a logit bias", row.bias[i].value,
                "a number below infinity");
    }
}

void throw_failure(Failure failure, const Row & row) {
    if (failure == nothing_left) {
        throw SamplingError(
            "no token is left to draw: every logit is -inf after bias and grammar mask. Allow more tokens.");
    }
    std::string found;
    if (row.logits != nullptr) {
        const auto is_bad = [](float logit) { return rank_key(logit) >= first_invalid_key; };
        const float * bad = std::find_if(row.logits, row.logits + row.n_vocab, is_bad);
        found = ": the logit of token " + std::to_string(bad - row.logits) + " is " + std::to_string(*bad);
    }
    throw SamplingError("the model's output is not a number" + found +
                        ". Its weights are damaged, or their type is not supported here: verify the model file.");
}

}  // namespace orin::sampling
