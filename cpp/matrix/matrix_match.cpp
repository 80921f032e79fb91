#include "matrix_match.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "ggml-impl.h"
#include "graph_readers.h"
#include "rows_match.h"

namespace orin {
namespace {

bool is_gate(const ggml_tensor & node) {
    if (node.op != GGML_OP_GLU) {
        return false;
    }
    switch (ggml_get_glu_op(&node)) {
        case GGML_GLU_OP_REGLU:
        case GGML_GLU_OP_GEGLU:
        case GGML_GLU_OP_SWIGLU:
        case GGML_GLU_OP_GEGLU_ERF:
        case GGML_GLU_OP_GEGLU_QUICK:
            return true;
        default:
            return false;
    }
}

class Matcher {
   public:
    Matcher(const ggml_cgraph & graph, const MatrixServices & services)
        : graph_(graph), services_(services), readers_(graph) {}

    MatrixPlan plan() {
        find_products();
        find_gates();
        find_sums();
        group_others();
        for (MatrixSite & site : plan_.sites) {
            site.index = readers_.index(site.place);
        }
        std::sort(plan_.sites.begin(), plan_.sites.end(),
                  [](const MatrixSite & a, const MatrixSite & b) { return a.index < b.index; });
        match_rows(services_, readers_, served_, plan_);
        return std::move(plan_);
    }

   private:
    struct Found {
        MatrixPart part;
        MatrixRows rows;
        bool is_placed = false;  // in a site
    };

    bool has_weights(const ggml_tensor & product) const {
        return (product.op == GGML_OP_MUL_MAT || product.op == GGML_OP_MUL_MAT_ID) &&
               product.src[0]->op == GGML_OP_NONE && services_.is_weight(*product.src[0]);
    }

    // The rows that it reads, or why it is left.
    std::variant<MatrixRows, std::string> rows_of(const ggml_tensor & product) const {
        if (product.op == GGML_OP_MUL_MAT_ID) {
            return std::string("experts are chosen");
        }
        const ggml_tensor & weights = *product.src[0];
        if (weights.ne[2] != 1 || weights.ne[3] != 1 || !is_activations(*product.src[1])) {
            return std::string("it is more than rows of weights and of activations");
        }
        if (ggml_get_op_params_i32(&product, 1) == GGML_HINT_SRC0_IS_HADAMARD) {
            return std::string("it is a rotation");
        }
        return services_.rows_of(product);
    }

    void find_products() {
        for (int i = 0; i < graph_.n_nodes; i++) {
            ggml_tensor * node = graph_.nodes[i];
            if (!has_weights(*node)) {
                continue;
            }
            const std::variant<MatrixRows, std::string> rows = rows_of(*node);
            if (const auto * why = std::get_if<std::string>(&rows)) {
                if (plan_.n_stock++ == 0) {
                    plan_.reason = node->src[0]->name + (": " + *why);
                }
                continue;
            }
            found_.push_back({with_bias(node), std::get<MatrixRows>(rows)});
            by_result_[found_.back().part.result] = found_.size() - 1;
            served_[node] = std::get<MatrixRows>(rows);
            plan_.n_served++;
        }
    }

    MatrixPart with_bias(ggml_tensor * product) const {
        MatrixPart part = {product, nullptr, product, 0, product->ne[0]};
        ggml_tensor * reader = readers_.only_one_of(product);
        if (reader != nullptr && reader->op == GGML_OP_ADD && reader->src[0] == product) {
            ggml_tensor * bias = reader->src[1];
            if (bias->type == GGML_TYPE_F32 && bias->ne[0] == product->ne[0] && ggml_nrows(bias) == 1 &&
                services_.is_weight(*bias) && ggml_is_contiguous(bias)) {
                part.bias = bias;
                part.result = reader;
            }
        }
        return part;
    }

    Found * producer_of(const ggml_tensor * result) {
        const auto found = by_result_.find(result);
        return found == by_result_.end() ? nullptr : &found_[found->second];
    }

    void find_gates() {
        for (int i = 0; i < graph_.n_nodes; i++) {
            ggml_tensor * gate = graph_.nodes[i];
            if (!is_gate(*gate) || !is_activations(*gate)) {
                continue;
            }
            Found * first = producer_of(gate->src[0]);
            if (first == nullptr || readers_.only_one_of(first->part.result) != gate) {
                continue;
            }
            if (gate->src[1] == nullptr) {
                place_halves(*first, gate);
                continue;
            }
            Found * second = producer_of(gate->src[1]);
            if (second != nullptr && second != first && readers_.only_one_of(second->part.result) == gate &&
                second->part.product->src[1] == first->part.product->src[1] &&
                second->part.product->src[0]->type == first->part.product->src[0]->type) {
                add_site(*first, {first->part, second->part}, gate, gate);
                second->is_placed = true;
            }
        }
    }

    // Both are rows of one matrix. Kernels read matrices from multiples of 16 bytes on: else the gate stays.
    void place_halves(Found & both, ggml_tensor * gate) {
        const int64_t half = both.part.n_rows / 2;
        if (static_cast<size_t>(half) * both.part.product->src[0]->nb[1] % 16 != 0) {
            return;
        }
        MatrixPart first = both.part;
        first.n_rows = half;
        MatrixPart second = first;
        second.first_row = half;
        const bool is_swapped = ggml_get_op_params_i32(gate, 1) != 0;
        if (is_swapped) {
            std::swap(first, second);
        }
        add_site(both, {first, second}, gate, gate);
    }

    MatrixSite & add_site(Found & found, std::vector<MatrixPart> parts, ggml_tensor * gate, ggml_tensor * place) {
        found.is_placed = true;
        MatrixSite site{};
        site.input = found.part.product->src[1];
        site.rows = found.rows;
        site.parts = std::move(parts);
        site.gate = gate;
        site.place = place;
        return plan_.sites.emplace_back(std::move(site));
    }

    // What a product, or a gate, is added to.
    void find_sums() {
        for (MatrixSite & site : plan_.sites) {
            if (ggml_tensor * sum = sum_of(site.gate)) {
                add_to(site, site.gate, sum);
            }
        }
        for (Found & found : found_) {
            ggml_tensor * sum = found.is_placed ? nullptr : sum_of(found.part.result);
            if (sum != nullptr) {
                add_to(add_site(found, {found.part}, nullptr, sum), found.part.result, sum);
            }
        }
    }

    // A sum of two products is one product's only.
    ggml_tensor * sum_of(const ggml_tensor * result) const {
        ggml_tensor * sum = readers_.only_one_of(result);
        if (sum == nullptr || sum->op != GGML_OP_ADD || sum->view_src != nullptr || is_taken(sum)) {
            return nullptr;
        }
        const ggml_tensor & other = *sum->src[sum->src[0] == result ? 1 : 0];
        return is_activations(other) && ggml_are_same_shape(&other, result) && !services_.is_weight(other) ? sum
                                                                                                           : nullptr;
    }

    bool is_taken(const ggml_tensor * sum) const {
        return std::any_of(plan_.sites.begin(), plan_.sites.end(),
                           [&](const MatrixSite & site) { return site.sum == sum; });
    }

    static void add_to(MatrixSite & site, const ggml_tensor * result, ggml_tensor * sum) {
        site.sum = sum;
        site.residual_slot = sum->src[0] == result ? 1 : 0;
        site.place = sum;
    }

    // Results lie one behind the other, and kernels read activations from multiples of 16 bytes on: one with another
    // number of rows has a launch of its own.
    void group_others() {
        std::map<std::pair<const ggml_tensor *, MatrixRows>, size_t> open;  // sites with room, by what they read
        for (Found & found : found_) {
            if (found.is_placed) {
                continue;
            }
            if (found.part.n_rows % 4 != 0) {
                add_site(found, {found.part}, nullptr, found.part.product);
                continue;
            }
            const auto [entry, is_new] = open.try_emplace({found.part.product->src[1], found.rows}, 0);
            if (is_new || plan_.sites[entry->second].parts.size() == max_matrix_parts) {
                entry->second = plan_.sites.size();
                add_site(found, {found.part}, nullptr, found.part.product);
            } else {
                plan_.sites[entry->second].parts.push_back(found.part);
                found.is_placed = true;
            }
        }
    }

    const ggml_cgraph & graph_;
    const MatrixServices & services_;
    const GraphReaders readers_;
    std::vector<Found> found_;
    std::unordered_map<const ggml_tensor *, size_t> by_result_;
    std::unordered_map<const ggml_tensor *, MatrixRows> served_;
    MatrixPlan plan_;
};

}  // namespace

MatrixPlan match_matrices(const ggml_cgraph & graph, const MatrixServices & services) {
    return Matcher(graph, services).plan();
}

}  // namespace orin
