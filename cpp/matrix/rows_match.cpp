#include "rows_match.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ggml-impl.h"

namespace orin {
namespace {

constexpr int64_t group_values = 32;  // cuda::row_group_values

class RowsMatcher {
   public:
    RowsMatcher(const MatrixServices & services, const GraphReaders & readers,
                const std::unordered_map<const ggml_tensor *, MatrixRows> & served, MatrixPlan & plan)
        : services_(services), readers_(readers), served_(served), plan_(plan) {}

    void match() {
        std::set<std::pair<const ggml_tensor *, MatrixRows>> known;
        for (const MatrixSite & site : plan_.sites) {
            if (known.emplace(site.input, site.rows).second) {
                find_giver(site.input, site.rows);
            }
        }
    }

   private:
    void find_giver(ggml_tensor * input, MatrixRows rows) {
        const bool is_alone = is_read_alone(input);
        if (is_alone && (is_written_by_gate(input, rows) || is_written_by_node(input, rows))) {
            return;
        }
        RowsSite site{};
        site.input = input;
        site.rows = rows;
        if (is_alone) {
            site.norm = norm_giving(input);
        }
        if (site.norm.norm == nullptr) {
            if (rows != MatrixRows::f32) {  // else they are such rows as they are
                plan_.rows.push_back(site);
            }
            return;
        }
        find_sum(site);
        plan_.rows.push_back(site);
    }

    // Whether products that read it in one form are all that do.
    bool is_read_alone(const ggml_tensor * input) const {
        const std::vector<ggml_tensor *> & all = readers_.of(input);
        const auto first = served_.find(all.front());
        return (input->flags & GGML_TENSOR_FLAG_OUTPUT) == 0 && first != served_.end() &&
               std::all_of(all.begin(), all.end(), [&](const ggml_tensor * reader) {
                   const auto found = served_.find(reader);
                   return found != served_.end() && found->second == first->second && reader->src[1] == input;
               });
    }

    bool is_written_by_gate(const ggml_tensor * input, MatrixRows rows) {
        const auto site = std::find_if(plan_.sites.begin(), plan_.sites.end(), [&](const MatrixSite & candidate) {
            return candidate.gate == input && candidate.sum == nullptr;
        });
        if (site == plan_.sites.end() || rows == MatrixRows::f32 || input->ne[0] % group_values != 0) {
            return false;
        }
        site->writes = rows;
        return true;
    }

    bool is_written_by_node(ggml_tensor * input, MatrixRows rows) {
        ggml_tensor * node = input->op == GGML_OP_RESHAPE ? input->src[0] : input;
        if (node != input && readers_.only_one_of(node) != input) {
            return false;
        }
        if (rows == MatrixRows::f32 || !services_.can_write(*node, rows)) {
            return false;
        }
        plan_.writers.push_back({input, rows, node});
        return true;
    }

    NormSite norm_giving(ggml_tensor * result) const {
        if (result->op != GGML_OP_MUL || result->view_src != nullptr) {
            return {};
        }
        ggml_tensor * norm = result->src[0];
        ggml_tensor * weight = result->src[1];
        const bool is_norm = norm->op == GGML_OP_RMS_NORM && norm->view_src == nullptr &&
                             readers_.only_one_of(norm) == result && is_activations(*norm->src[0]) &&
                             weight->type == GGML_TYPE_F32 && weight->ne[0] == result->ne[0] &&
                             ggml_nrows(weight) == 1 && services_.is_weight(*weight);
        return is_norm ? NormSite{norm, weight, result} : NormSite{};
    }

    // What the norm reads is a sum that no product has in it.
    void find_sum(RowsSite & site) const {
        ggml_tensor * sum = site.norm.norm->src[0];
        const bool is_sum = sum->op == GGML_OP_ADD && sum->view_src == nullptr && !is_with_product(sum) &&
                            ggml_are_same_shape(sum->src[0], sum->src[1]) && is_activations(*sum->src[0]) &&
                            is_activations(*sum->src[1]);
        if (!is_sum) {
            return;
        }
        site.sum = sum;
        site.index = readers_.index(sum);
        for (int slot = 0; slot < 2; slot++) {
            ggml_tensor * normed = sum->src[slot];
            const NormSite post_norm = readers_.only_one_of(normed) == sum ? norm_giving(normed) : NormSite{};
            if (post_norm.norm != nullptr) {
                site.post_norm = post_norm;
                site.residual_slot = 1 - slot;
                return;
            }
        }
    }

    bool is_with_product(const ggml_tensor * sum) const {
        return std::any_of(plan_.sites.begin(), plan_.sites.end(),
                           [&](const MatrixSite & site) { return site.sum == sum; });
    }

    const MatrixServices & services_;
    const GraphReaders & readers_;
    const std::unordered_map<const ggml_tensor *, MatrixRows> & served_;
    MatrixPlan & plan_;
};

}  // namespace

bool is_activations(const ggml_tensor & t) {
    return t.type == GGML_TYPE_F32 && t.ne[2] == 1 && t.ne[3] == 1 && ggml_is_contiguous(&t);
}

void match_rows(const MatrixServices & services, const GraphReaders & readers,
                const std::unordered_map<const ggml_tensor *, MatrixRows> & served, MatrixPlan & plan) {
    RowsMatcher(services, readers, served, plan).match();
}

}  // namespace orin
