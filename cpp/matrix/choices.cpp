#include "choices.h"

#include <algorithm>
#include <stdexcept>

#include "../../cuda/device_size.h"

namespace orin {
namespace {

using cuda::WeightType;

constexpr std::array<const char *, cuda::n_weight_types> type_names = {"f16",  "q8_0", "q4_0", "q4_1",
                                                                       "q4_K", "q5_K", "q6_K"};
constexpr int32_t most_tokens = 1 << 16;
constexpr int32_t most_vector_tokens = 8;  // that matrix_vector computes
const std::string vector_tokens = "vector_tokens";

// Choices that are one number.
struct Field {
    ChoiceRange range;
    int32_t MatrixChoices::* value;
};

const std::vector<Field> & fields() {
    static const std::vector<Field> all = {
        {{"product_tokens", 0, most_tokens, {}}, &MatrixChoices::product_tokens},
        {{"product_most", 0, most_tokens, {}}, &MatrixChoices::product_most},
        {{"cublas_tokens", 0, most_tokens, {}}, &MatrixChoices::cublas_tokens},
        {{"vector_rows", 0, 4, {0, 1, 2, 4}}, &MatrixChoices::vector_rows},
        {{"vector_splits", 0, 8, {0, 1, 2, 4, 8}}, &MatrixChoices::vector_splits},
        {{"product_splits", 0, 64, {}}, &MatrixChoices::product_splits},
        {{"prefetch_bytes", 0, 1 << 28, {}}, &MatrixChoices::prefetch_bytes},
        {{"gather_tokens", 0, most_tokens, {}}, &MatrixChoices::gather_tokens},
    };
    return all;
}

const ChoiceRange & range_of(const std::string & name) {
    for (const ChoiceRange & range : choice_ranges()) {
        if (range.name == name) {
            return range;
        }
    }
    throw std::invalid_argument("no choice is called " + name);
}

void set(MatrixChoices & choices, const std::string & name, int32_t value) {
    for (const Field & field : fields()) {
        if (field.range.name == name) {
            choices.*field.value = value;
        }
    }
    for (size_t type = 0; type < type_names.size(); type++) {
        if (name == vector_tokens + "_" + type_names[type]) {
            choices.vector_tokens[type] = value;
        }
    }
}

}  // namespace

MatrixChoices default_choices(int32_t compute_capability, int32_t n_multiprocessors) {
    const bool few = cuda::has_few_multiprocessors(n_multiprocessors);
    MatrixChoices choices;
    // Reasoned, not measured. Each further column costs eight dp4a for 16 bytes of weights: where multiprocessors are
    // few, instructions are short with one column already (llama.cpp leaves its vector form at 2 on the board); many
    // have some to spare up to about 4.
    choices.vector_tokens.fill(few ? 2 : 4);
    // Reasoned, not measured. Decoding to f16 costs writing and reading 2 bytes a weight, whatever the number of
    // tokens, and cuBLAS computes several times as fast as llama.cpp's kernel: an 8B model on a board of 204.8 GB/s
    // gains from about 400 tokens, on GPUs whose memory is faster from about 100.
    choices.cublas_tokens = compute_capability == 87 ? 512 : 128;
    // Reasoned, not measured: what memory delivers in the time of a launch of 2 to 3 µs, and an eighth of the L2 cache.
    choices.prefetch_bytes = few ? 512 << 10 : 6 << 20;
    return choices;
}

MatrixForm matrix_form(const MatrixChoices & choices, int32_t n_tokens, const std::vector<WeightType> & types) {
    const bool is_vector = std::all_of(types.begin(), types.end(), [&](WeightType type) {
        return n_tokens <= choices.vector_tokens[static_cast<size_t>(type)];
    });
    if (is_vector) {
        return MatrixForm::vector;
    }
    const bool is_product = choices.product_tokens > 0 && n_tokens >= choices.product_tokens &&
                            (choices.product_most == 0 || n_tokens <= choices.product_most);
    return is_product ? MatrixForm::product : MatrixForm::stock;
}

const std::vector<ChoiceRange> & choice_ranges() {
    static const std::vector<ChoiceRange> ranges = [] {
        std::vector<ChoiceRange> all = {{vector_tokens, 0, most_vector_tokens, {}}};
        for (const char * type : type_names) {
            all.push_back({vector_tokens + "_" + type, 0, most_vector_tokens, {}});
        }
        for (const Field & field : fields()) {
            all.push_back(field.range);
        }
        return all;
    }();
    return ranges;
}

MatrixChoices with_choices(MatrixChoices choices, const std::map<std::string, int32_t> & chosen) {
    for (const auto & [name, value] : chosen) {
        const ChoiceRange & range = range_of(name);
        const bool is_meant =
            range.values.empty() || std::find(range.values.begin(), range.values.end(), value) != range.values.end();
        if (value < range.least || value > range.most || !is_meant) {
            throw std::invalid_argument(name + " cannot be " + std::to_string(value));
        }
    }
    const auto of_all_types = chosen.find(vector_tokens);
    if (of_all_types != chosen.end()) {
        choices.vector_tokens.fill(of_all_types->second);
    }
    for (const auto & [name, value] : chosen) {
        set(choices, name, value);
    }
    return choices;
}

std::map<std::string, int32_t> to_map(const MatrixChoices & choices) {
    std::map<std::string, int32_t> result;
    for (const Field & field : fields()) {
        result[field.range.name] = choices.*field.value;
    }
    for (size_t type = 0; type < type_names.size(); type++) {
        result[vector_tokens + "_" + type_names[type]] = choices.vector_tokens[type];
    }
    return result;
}

}  // namespace orin
