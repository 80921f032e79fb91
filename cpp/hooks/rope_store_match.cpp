#include "rope_store_match.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "ggml-impl.h"
#include "graph_edit.h"

namespace orin {
namespace {

// Why a layer does not fit.
struct Misfit : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void require(bool condition, const char * otherwise) {
    if (!condition) {
        throw Misfit(otherwise);
    }
}

// From a tensor towards what it is made of.
class Trail {
   public:
    explicit Trail(ggml_tensor * end) : at_(end) {}

    ggml_tensor * at() const { return at_; }
    const std::vector<ggml_tensor *> & passed() const { return passed_; }

    void pass(int slot = 0) {
        passed_.push_back(at_);
        at_ = at_->src[slot];
    }

    void pass_equal_views() {
        while (!is_rotation() && (at_->op == GGML_OP_VIEW || at_->op == GGML_OP_RESHAPE) &&
               ggml_are_same_shape(at_, at_->src[0]) && ggml_are_same_stride(at_, at_->src[0])) {
            pass();
        }
    }

    // The rows that are stored, which upstream makes a view of the heads.
    void pass_rows_of_heads() {
        const ggml_tensor & rows = *at_;
        require(rows.op == GGML_OP_VIEW, "what is stored are not the heads of the tokens");
        const ggml_tensor & heads = *rows.src[0];
        const bool covers = rows.ne[0] == heads.ne[0] * heads.ne[1] && rows.ne[1] == heads.ne[2] && heads.ne[3] == 1 &&
                            rows.nb[1] == heads.nb[2] && heads.nb[1] == ggml_row_size(heads.type, heads.ne[0]) &&
                            rows.view_offs == heads.view_offs;
        require(covers, "what is stored are not the heads of the tokens");
        pass();
    }

    // A rotation as upstream makes it: into groups, multiplied, and back. Returns the size of a group; 0: none is here.
    int32_t pass_rotation(std::vector<ggml_tensor *> & matrices) {
        if (!is_rotation()) {
            return 0;
        }
        const ggml_tensor * product = at_->src[0];
        ggml_tensor * matrix = product->src[0];
        const ggml_tensor * groups = product->src[1];
        require((groups->op == GGML_OP_RESHAPE || groups->op == GGML_OP_CONT) &&
                    ggml_are_same_shape(at_, groups->src[0]) && matrix->op == GGML_OP_NONE,
                "its rotation has another form");
        pass();
        pass(1);
        pass();
        matrices.push_back(matrix);
        return static_cast<int32_t>(matrix->ne[0]);
    }

    void pass_rope(const char * otherwise) {
        const bool is_rope =
            at_->op == GGML_OP_ROPE && at_->view_src == nullptr && ggml_get_op_params_i32(at_, 15) == 0;
        const int32_t mode = is_rope ? ggml_get_op_params_i32(at_, 2) : -1;
        require(mode == GGML_ROPE_TYPE_NORMAL || mode == GGML_ROPE_TYPE_NEOX, otherwise);
        pass();
    }

    // One that others read, too, stays a node.
    HeadNorm pass_norm(const ggml_cgraph & graph) {
        const auto is_alone = [&](const ggml_tensor & node) {
            return node.view_src == nullptr && n_uses(graph, &node) == 1 && (node.flags & GGML_TENSOR_FLAG_OUTPUT) == 0;
        };
        const ggml_tensor & product = *at_;
        if (product.op != GGML_OP_MUL || product.src[0]->op != GGML_OP_RMS_NORM || !is_alone(product) ||
            !is_alone(*product.src[0])) {
            return {};
        }
        ggml_tensor * weight = product.src[1];
        if (weight->op != GGML_OP_NONE || weight->type != GGML_TYPE_F32 || !ggml_is_contiguous(weight) ||
            ggml_nelements(weight) != product.ne[0] || weight->ne[0] != product.ne[0]) {
            return {};
        }
        const float eps = ggml_get_op_params_f32(product.src[0], 0);
        pass();
        pass();
        return {weight, eps};
    }

    float pass_scale() {
        if (at_->op != GGML_OP_SCALE) {
            return 1.0f;
        }
        require(ggml_get_op_params_f32(at_, 1) == 0.0f && at_->view_src == nullptr, "its queries get a bias");
        const float scale = ggml_get_op_params_f32(at_, 0);
        pass();
        return scale;
    }

   private:
    bool is_rotation() const {
        return at_->op == GGML_OP_RESHAPE && at_->src[0]->op == GGML_OP_MUL_MAT &&
               ggml_get_op_params_i32(at_->src[0], 1) == GGML_HINT_SRC0_IS_HADAMARD;
    }

    ggml_tensor * at_;
    std::vector<ggml_tensor *> passed_;
};

ggml_tensor * attention_over(const ggml_cgraph & graph, const PagedLayer & layer) {
    ggml_tensor ** const end = graph.nodes + graph.n_nodes;
    ggml_tensor ** const found = std::find_if(graph.nodes, end, [&](const ggml_tensor * node) {
        return node->op == GGML_OP_FLASH_ATTN_EXT && node->src[1]->view_src == layer.k &&
               node->src[2]->view_src == layer.v;
    });
    require(found != end, "no flash attention reads its cells");
    return *found;
}

ggml_tensor * store_into(const ggml_cgraph & graph, const ggml_tensor * cells) {
    ggml_tensor * store = nullptr;
    for (int i = 0; i < graph.n_nodes; i++) {
        ggml_tensor * node = graph.nodes[i];
        if (node->op == GGML_OP_SET_ROWS && node->view_src == cells) {
            require(store == nullptr, "its cells are written in several places");
            store = node;
        }
    }
    require(store != nullptr, "its cells are not written");
    require(store->src[2] == cells && n_uses(graph, store) == 0, "its cells are written in another way");
    return store;
}

// Q as attention reads it, before the permutation that is the attention's own.
ggml_tensor * queries_of(const ggml_tensor & attention) {
    const ggml_tensor & permuted = *attention.src[0];
    const int32_t axes[] = {0, 2, 1, 3};
    require(permuted.op == GGML_OP_PERMUTE && std::memcmp(permuted.op_params, axes, sizeof axes) == 0 &&
                ggml_is_contiguous(permuted.src[0]) && permuted.src[0]->ne[3] == 1,
            "its queries reach attention in another form");
    return permuted.src[0];
}

// The first is an end and may be read; nobody but the others reads the rest.
void require_alone(const ggml_cgraph & graph, const std::vector<ggml_tensor *> & passed) {
    for (size_t i = 0; i < passed.size(); i++) {
        require((i == 0 || n_uses(graph, passed[i]) == 1) && (passed[i]->flags & GGML_TENSOR_FLAG_OUTPUT) == 0,
                "what RoPE or a rotation gives is read elsewhere, too");
    }
}

bool is_rows(const ggml_tensor & t, int64_t n_tokens) {
    return t.type == GGML_TYPE_F32 && t.ne[2] == n_tokens && t.ne[3] == 1 && t.nb[0] == sizeof(float);
}

RopeStoreSite site_of(const ggml_cgraph & graph, const PagedLayer & layer) {
    require(layer.n_readers == 1, "later layers read its cells");
    ggml_tensor * attention = attention_over(graph, layer);
    ggml_tensor * k_store = store_into(graph, layer.k);
    ggml_tensor * v_store = store_into(graph, layer.v);
    RopeStoreSite site;

    Trail q(queries_of(*attention));
    site.q_ready = q.at();
    q.pass_equal_views();
    const int32_t q_hadamard = q.pass_rotation(site.rotations);
    site.q_scale = q.pass_scale();
    const ggml_tensor * q_rope = q.at();
    q.pass_rope("its queries do not come from a plain RoPE");
    site.q_norm = q.pass_norm(graph);

    Trail k(k_store);
    k.pass();
    k.pass_rows_of_heads();
    site.k_hadamard = k.pass_rotation(site.rotations);
    site.rope = k.at();
    k.pass_rope("its keys do not come from a plain RoPE");
    site.k_norm = k.pass_norm(graph);

    Trail v(v_store);
    v.pass();
    v.pass_rows_of_heads();
    site.v_hadamard = v.pass_rotation(site.rotations);

    require(q_hadamard == site.k_hadamard, "its queries and keys are rotated differently");
    require(std::memcmp(q_rope->op_params, site.rope->op_params, sizeof q_rope->op_params) == 0 &&
                q_rope->src[1] == site.rope->src[1] && q_rope->src[2] == site.rope->src[2],
            "its queries and keys turn differently");
    for (const Trail * trail : {&q, &k, &v}) {
        require_alone(graph, trail->passed());
        site.replaced.insert(site.replaced.end(), trail->passed().begin(), trail->passed().end());
    }
    site.q = q.at();
    site.k = k.at();
    site.v = v.at();
    site.positions = site.rope->src[1];
    site.cells = k_store->src[1];
    const int64_t n_tokens = site.q_ready->ne[2];
    require(is_rows(*site.q, n_tokens) && is_rows(*site.k, n_tokens) && is_rows(*site.v, n_tokens) &&
                site.positions->ne[0] == n_tokens && site.cells->ne[0] == n_tokens &&
                site.cells->type == GGML_TYPE_I64 && v_store->src[1]->ne[0] == n_tokens,
            "its projections have another form");
    site.index = std::max(node_index(graph, k_store), node_index(graph, v_store));
    for (int i = 0; i < site.index; i++) {
        const auto & sources = graph.nodes[i]->src;
        require(std::find(std::begin(sources), std::end(sources), site.q_ready) == std::end(sources),
                "its queries are read before its keys and values are stored");
    }
    return site;
}

}  // namespace

std::variant<RopeStoreSite, std::string> match_rope_store(const ggml_cgraph & graph, const PagedLayer & layer) {
    try {
        return site_of(graph, layer);
    } catch (const Misfit & misfit) {
        return std::string(misfit.what());
    }
}

}  // namespace orin
