#include "plan_words.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "ggml.h"

namespace orin {
namespace {

const char * name_of(MatrixRows rows) {
    switch (rows) {
        case MatrixRows::f32:
            return "f32";
        case MatrixRows::int8:
            return "int8";
        case MatrixRows::f16:
            return "f16";
    }
    return "";
}

// "blk.0.attn_norm.weight" is "0.attn_norm".
std::string short_name(const ggml_tensor & weight) {
    std::string name = weight.name;
    for (const std::string cut : {"blk.", ".weight"}) {
        const size_t at = name.find(cut);
        if (at != std::string::npos) {
            name.erase(at, cut.size());
        }
    }
    return name;
}

std::string words_of(const RowsSite & site) {
    std::string words = std::string(name_of(site.rows)) + " rows";
    if (site.post_norm.norm != nullptr) {
        words += " of " + short_name(*site.post_norm.weight) + " + sum,";
    } else if (site.sum != nullptr) {
        words += " of sum,";
    }
    return site.norm.norm == nullptr ? words : words + " " + short_name(*site.norm.weight);
}

std::string words_of(const MatrixSite & site) {
    std::string words;
    if (site.gate != nullptr) {
        words = ggml_glu_op_name(ggml_get_glu_op(site.gate)) + std::string(" of ");
        std::transform(words.begin(), words.end(), words.begin(), [](unsigned char c) { return std::tolower(c); });
    }
    for (const MatrixPart & part : site.parts) {
        words += short_name(*part.product->src[0]);
        words += part.first_row == 0 ? "" : " from " + std::to_string(part.first_row);
        words += part.bias == nullptr ? "" : " + bias";
        words += &part == &site.parts.back() ? "" : ", ";
    }
    words += site.sum == nullptr ? "" : " + sum";
    return site.writes ? words + " as " + name_of(*site.writes) : words;
}

}  // namespace

std::vector<std::string> words_of(const MatrixPlan & plan) {
    std::multimap<int, std::string> by_index;
    const auto is_reader = [](const auto & giver) {
        return [&giver](const MatrixSite & site) { return site.input == giver.input && site.rows == giver.rows; };
    };
    const auto index_of = [&](const auto & giver) {
        return std::find_if(plan.sites.begin(), plan.sites.end(), is_reader(giver))->index;
    };
    for (const RowsSite & site : plan.rows) {
        by_index.emplace(site.sum == nullptr ? index_of(site) : site.index, words_of(site));
    }
    for (const WriterSite & site : plan.writers) {
        by_index.emplace(index_of(site), std::string("attention as ") + name_of(site.rows));
    }
    for (const MatrixSite & site : plan.sites) {
        by_index.emplace(site.index, words_of(site));
    }
    std::vector<std::string> nodes;
    for (auto & [index, words] : by_index) {
        nodes.push_back(std::move(words));
    }
    return nodes;
}

}  // namespace orin
