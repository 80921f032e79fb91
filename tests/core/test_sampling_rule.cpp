// Sampling gives the candidates, weights and token of the rule written naively, exactly, for any row.
#include <cstring>
#include <string>
#include <utility>

#include "check.h"
#include "naive_sampling.h"
#include "sampling/logprobs.h"
#include "sampling/philox.h"
#include "sampling/sampling.h"
#include "sampling_cases.h"

namespace orin {
namespace {

constexpr int32_t max_vocab = 70'000;
constexpr float infinity = std::numeric_limits<float>::infinity();

int32_t random_vocab(Random & random) {
    return random.one_in(100) ? 1 + random.below(max_vocab)
           : random.one_in(4) ? 1 + random.below(5)
                              : 1 + random.below(1000);
}

bool has_token_left(const sampling::Row & row) {
    const std::vector<float> logits = naive_logits(row);
    return *std::max_element(logits.begin(), logits.end()) > -infinity;
}

void check_row(sampling::Workspace & workspace, const sampling::Row & row) {
    int32_t token;
    sampling::sample_rows(workspace, &row, 1, &token);
    if (!has_token_left(row)) {
        CHECK(token == sampling::nothing_left);
        return;
    }
    const NaiveCandidates expected = naive_candidates(row);
    const sampling::Candidates candidates = sampling::candidates_of(workspace, row);
    CHECK(size_t(candidates.count) == expected.ids.size());
    CHECK(std::equal(expected.ids.begin(), expected.ids.end(), candidates.ids));
    CHECK(std::equal(expected.weights.begin(), expected.weights.end(), candidates.weights));
    CHECK(candidates.total == std::accumulate(expected.weights.begin(), expected.weights.end(), uint64_t{0}));
    const uint64_t words = sampling::random_words(row.params.seed, row.choice, row.position);
    CHECK(token == naive_token(expected, words));
    for (const uint64_t extreme : {uint64_t{0}, ~uint64_t{0}}) {
        CHECK(sampling::choose(sampling::candidates_of(workspace, row), extreme) == naive_token(expected, extreme));
    }
    CHECK(token == sampling::sample_row(workspace, row));
}

void check_random_rows(sampling::Workspace & workspace, int64_t count) {
    Random random(7);
    for (int64_t i = 0; i < count; ++i) {
        const Case made = random_case(random, random_vocab(random));
        const std::vector<float> before = made.logits;
        check_row(workspace, row_of(made));
        CHECK(std::memcmp(before.data(), made.logits.data(), before.size() * sizeof(float)) == 0);
    }
}

// Half of the total is half a unit more than the first token's weight.
void check_top_p_compares_exactly(sampling::Workspace & workspace) {
    const std::vector<float> logits = {0.0f, 0.0f, -21.0f};
    sampling::Row row;
    row.logits = logits.data();
    row.n_vocab = 3;
    row.params.temperature = 1.0f;
    row.params.top_p = 0.5f;
    row.params.min_p = 0.0f;
    CHECK(sampling::candidates_of(workspace, row).count == 2);
    check_row(workspace, row);
}

std::string error_of(sampling::Workspace & workspace, const sampling::Row & row) {
    try {
        sampling::sample_row(workspace, row);
    } catch (const sampling::SamplingError & error) {
        return error.what();
    }
    return "";
}

void check_bad_logits_are_found_wherever_they_are(sampling::Workspace & workspace) {
    Random random(3);
    for (int32_t n_vocab : {1, 63, 64, 65, 128, 1000}) {
        Case made = random_case(random, n_vocab);
        made.mask.assign(size_t(n_vocab + 31) / 32, 0);  // a mask hides none
        for (int32_t place : {0, n_vocab / 2, n_vocab - 1}) {
            for (float bad :
                 {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(), infinity}) {
                const float good = std::exchange(made.logits[size_t(place)], bad);
                const std::string message = error_of(workspace, row_of(made));
                CHECK(message.find("token " + std::to_string(place) + " ") != std::string::npos);
                CHECK(message.find("damaged") != std::string::npos);
                made.logits[size_t(place)] = good;
            }
        }
    }
}

void check_a_bad_row_leaves_the_others_alone(sampling::Workspace & workspace) {
    const std::vector<float> good = {1.0f, 3.0f, 2.0f};
    const std::vector<float> nan = {1.0f, std::nanf(""), 2.0f};
    const std::vector<float> none = {-infinity, -infinity, -infinity};
    sampling::Row rows[4];
    const float * logits[4] = {good.data(), nan.data(), none.data(), good.data()};
    for (int32_t i = 0; i < 4; ++i) {
        rows[i].logits = logits[i];
        rows[i].n_vocab = 3;
        rows[i].params.temperature = 0.0f;
    }
    int32_t tokens[4];
    sampling::sample_rows(workspace, rows, 4, tokens);
    CHECK(tokens[0] == 1 && tokens[1] == sampling::bad_logits && tokens[2] == sampling::nothing_left && tokens[3] == 1);
    CHECK(error_of(workspace, rows[2]).find("no token is left") != std::string::npos);
}

template <typename Change>
void check_refused(sampling::Workspace & workspace, const Change & change) {
    const std::vector<float> logits(4);
    const int32_t outside[] = {0, 4};
    const sampling::Bias bias[] = {{4, 0.0f}, {0, infinity}, {0, std::nanf("")}, {-1, 0.0f}};
    sampling::Row row;
    row.logits = logits.data();
    row.n_vocab = 4;
    row.recent = outside;
    row.bias = bias;
    change(row);
    try {
        sampling::sample_row(workspace, row);
    } catch (const sampling::RowError &) {
        return;
    }
    CHECK(!"refused");
}

void check_what_cannot_be_is_refused(sampling::Workspace & workspace) {
    for (float bad : {-1.0f, std::nanf(""), infinity}) {
        check_refused(workspace, [=](sampling::Row & row) { row.params.temperature = bad; });
        check_refused(workspace, [=](sampling::Row & row) { row.params.top_p = bad; });
        check_refused(workspace, [=](sampling::Row & row) { row.params.min_p = bad; });
        check_refused(workspace, [=](sampling::Row & row) { row.params.repeat_penalty = bad; });
    }
    for (float bad : {-101.0f, std::nanf(""), infinity}) {
        check_refused(workspace, [=](sampling::Row & row) { row.params.frequency_penalty = bad; });
        check_refused(workspace, [=](sampling::Row & row) { row.params.presence_penalty = bad; });
    }
    check_refused(workspace, [](sampling::Row & row) { row.params.repeat_penalty = 0.0f; });
    check_refused(workspace, [](sampling::Row & row) { row.params.top_k = -1; });
    check_refused(workspace, [](sampling::Row & row) { row.params.order = static_cast<sampling::Order>(2); });
    check_refused(workspace, [](sampling::Row & row) { row.n_vocab = 0; });
    check_refused(workspace, [](sampling::Row & row) { row.n_vocab = max_vocab + 1; });
    check_refused(workspace, [](sampling::Row & row) { row.n_recent = 2; });
    for (int32_t i = 0; i < 4; ++i) {
        check_refused(workspace, [=](sampling::Row & row) { row.n_bias = 1, row.bias += i; });
    }
}

void check_the_place_decides_the_draw() {
    CHECK(sampling::random_words(0, 0, 0) == 0xe169c58d6627e8d5u);
    const sampling::PhiloxCounter words =
        sampling::philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0}, {0xa4093822, 0x299f31d0});
    CHECK(sampling::random_words(0x299f31d0a4093822u, 0x13198a2e, 0x85a308d3243f6a88u) ==
          (words[0] | uint64_t{words[1]} << 32));
    for (int32_t bit = 0; bit < 64; ++bit) {
        CHECK(sampling::random_words(uint64_t{1} << bit, 0, 0) != sampling::random_words(0, 0, 0));
        CHECK(sampling::random_words(0, 0, uint64_t{1} << bit) != sampling::random_words(0, 0, 0));
        CHECK(sampling::random_words(0, 1u << bit % 32, 0) != sampling::random_words(0, 0, 0));
    }
}

void check_log_probabilities(sampling::Workspace & workspace, int64_t count) {
    Random random(11);
    std::vector<sampling::TokenLogprob> result(max_vocab + 1);
    for (int64_t i = 0; i < count; ++i) {
        const int32_t n_vocab = random_vocab(random);
        const std::vector<float> logits = random_logits(random, n_vocab);
        std::vector<int32_t> ranked(logits.size());
        std::iota(ranked.begin(), ranked.end(), 0);
        std::stable_sort(ranked.begin(), ranked.end(),
                         [&](int32_t a, int32_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
        const double top = logits[size_t(ranked[0])];
        if (top == -infinity) {
            continue;
        }
        double sum = 0.0;
        for (float logit : logits) {
            sum += std::exp(static_cast<double>(logit) - top);
        }
        const int32_t n = random.one_in(4) ? n_vocab + 1 : random.below(n_vocab + 1);
        const int32_t chosen = random.below(n_vocab);
        const int32_t written = sampling::top_logprobs(workspace, logits.data(), n_vocab, n, chosen, result.data());
        CHECK(written == std::min(n, n_vocab) + 1);
        CHECK(result[size_t(written) - 1].token == chosen);
        for (int32_t place = 0; place < written; ++place) {
            const auto [token, logprob] = result[size_t(place)];
            CHECK(place == written - 1 || token == ranked[size_t(place)]);
            const double expected = (logits[size_t(token)] - top) - std::log(sum);
            CHECK(logprob == static_cast<float>(expected) ||
                  std::abs(logprob - expected) <= 1e-6 * (1.0 + std::abs(expected)));
        }
    }
}

}  // namespace
}  // namespace orin

int main(int argc, char ** argv) {
    const int64_t count = orin::operations(argc, argv, 20'000);
    orin::sampling::Workspace workspace(orin::max_vocab);
    orin::check_random_rows(workspace, count);
    orin::check_top_p_compares_exactly(workspace);
    orin::check_bad_logits_are_found_wherever_they_are(workspace);
    orin::check_a_bad_row_leaves_the_others_alone(workspace);
    orin::check_what_cannot_be_is_refused(workspace);
    orin::check_the_place_decides_the_draw();
    orin::check_log_probabilities(workspace, count / 4);
}
