// What rows of logits say of the token that followed, and how two models' rows of the same position differ. Sums are
// taken in double.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace orin {

// A row that is no distribution: NaN, infinity, or nothing but minus infinity.
struct BadLogits : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// -log(probability of token), natural. logits: [n_vocab]. Throws BadLogits.
double token_nll(const float * logits, int32_t n_vocab, int32_t token);

struct RowDifference {
    double nll;            // of the token, by the row
    double reference_nll;  // by the reference's
    // Sum over the vocabulary of p_ref · log(p_ref / p). Infinite where p is 0 and p_ref is not.
    double kl_divergence;
    double max_logit;  // largest |logit - reference logit|; NaN where the reference has log-probabilities alone
    bool same_top;     // the likeliest token is the same; of equal ones, the lowest
};

// Throws BadLogits.
RowDifference compare_rows(const float * reference, const float * logits, int32_t n_vocab, int32_t token);

// Rows of log-probabilities in 16 bits, as llama.cpp's perplexity tool keeps a reference (tools/perplexity): two
// floats, step and least value, then for each token the number of steps above that. What is less likely than the
// likeliest token by a factor of e^16 has the least value.

// Words of 16 bits in a row: the last one is padding where n_vocab is odd.
constexpr int64_t encoded_words(int32_t n_vocab) {
    return 4 + 2 * ((int64_t{n_vocab} + 1) / 2);
}

// encoded: [encoded_words(n_vocab)]. Throws BadLogits.
void encode_row(const float * logits, int32_t n_vocab, uint16_t * encoded);

// As llama.cpp's tool compares: what the reference has at no more than log-probability -16 is not in the divergence.
// Throws BadLogits, for a reference whose two floats are not finite, too.
RowDifference compare_encoded(const uint16_t * reference, const float * logits, int32_t n_vocab, int32_t token);

}  // namespace orin
