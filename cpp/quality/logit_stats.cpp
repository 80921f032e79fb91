#include "logit_stats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace orin {
namespace {

constexpr double least_log_prob = -16.0;  // in a divergence from encoded rows
constexpr float encoded_range = 16.0f;    // of logits below the largest
constexpr int32_t header_words = 4;

struct Top {
    int32_t token;
    float logit;
};

Top top_of(const float * logits, int32_t n_vocab) {
    Top top{0, logits[0]};
    bool is_number = true;
    for (int32_t i = 0; i < n_vocab; i++) {
        is_number = is_number && !std::isnan(logits[i]);
        if (logits[i] > top.logit) {
            top = {i, logits[i]};
        }
    }
    if (!is_number || !std::isfinite(top.logit)) {
        throw BadLogits(
            "logits are not numbers: a model is damaged (`orin-llm models verify` tells), or its activations overflow "
            "on this device");
    }
    return top;
}

// log of the sum of exp(logits)
double log_sum(const float * logits, int32_t n_vocab, const Top & top) {
    double sum = 0.0;
    for (int32_t i = 0; i < n_vocab; i++) {
        sum += std::exp(static_cast<double>(logits[i]) - top.logit);
    }
    return top.logit + std::log(sum);
}

}  // namespace

double token_nll(const float * logits, int32_t n_vocab, int32_t token) {
    return log_sum(logits, n_vocab, top_of(logits, n_vocab)) - logits[token];
}

// With L the log of the sum of exp: KL = sum of p_ref · ((x_ref - L_ref) - (x - L)).
RowDifference compare_rows(const float * reference, const float * logits, int32_t n_vocab, int32_t token) {
    const Top top = top_of(logits, n_vocab);
    const Top reference_top = top_of(reference, n_vocab);
    const double total = log_sum(logits, n_vocab, top);
    double sum = 0.0;
    double weighted = 0.0;
    double largest = 0.0;
    for (int32_t i = 0; i < n_vocab; i++) {
        const double weight = std::exp(static_cast<double>(reference[i]) - reference_top.logit);
        const double difference = static_cast<double>(reference[i]) - logits[i];
        sum += weight;
        if (weight > 0.0) {  // else both may be minus infinity
            weighted += weight * difference;
        }
        largest = std::max(largest, std::abs(difference));  // keeps `largest` where it is NaN
    }
    const double reference_total = reference_top.logit + std::log(sum);
    return {total - logits[token], reference_total - reference[token],
            std::max(0.0, weighted / sum + total - reference_total), largest, top.token == reference_top.token};
}

void encode_row(const float * logits, int32_t n_vocab, uint16_t * encoded) {
    const Top top = top_of(logits, n_vocab);
    const float least = std::max(*std::min_element(logits, logits + n_vocab), top.logit - encoded_range);
    const float step = (top.logit - least) / 65535.0f;
    const auto base = static_cast<float>(least - log_sum(logits, n_vocab, top));
    std::memcpy(encoded, &step, sizeof(step));
    std::memcpy(encoded + 2, &base, sizeof(base));
    std::fill(encoded + header_words, encoded + encoded_words(n_vocab), uint16_t{0});
    if (step == 0.0f) {
        return;
    }
    const float steps_per_unit = 1.0f / step;
    for (int32_t i = 0; i < n_vocab; i++) {
        if (logits[i] > least) {
            const float steps = std::nearbyint(steps_per_unit * (logits[i] - least));
            encoded[header_words + i] = static_cast<uint16_t>(std::min(steps, 65535.0f));
        }
    }
}

RowDifference compare_encoded(const uint16_t * reference, const float * logits, int32_t n_vocab, int32_t token) {
    float step = 0.0f;
    float base = 0.0f;
    std::memcpy(&step, reference, sizeof(step));
    std::memcpy(&base, reference + 2, sizeof(base));
    if (!std::isfinite(step) || !std::isfinite(base) || step < 0.0f) {
        throw BadLogits("log-probabilities of the reference are not numbers");
    }
    const uint16_t * steps = reference + header_words;
    const Top top = top_of(logits, n_vocab);
    const double total = log_sum(logits, n_vocab, top);
    const auto log_prob = [&](int32_t i) { return static_cast<double>(step) * steps[i] + base; };
    double divergence = 0.0;
    int32_t reference_top = 0;
    for (int32_t i = 0; i < n_vocab; i++) {
        if (steps[i] > steps[reference_top]) {
            reference_top = i;
        }
        const double reference_log_prob = log_prob(i);
        if (reference_log_prob > least_log_prob) {
            divergence += std::exp(reference_log_prob) * (reference_log_prob - (logits[i] - total));
        }
    }
    return {total - logits[token], -log_prob(token), divergence, std::numeric_limits<double>::quiet_NaN(),
            top.token == reference_top};
}

}  // namespace orin
