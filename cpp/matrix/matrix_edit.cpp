#include "matrix_edit.h"

#include <algorithm>
#include <unordered_set>

#include "../hooks/graph_edit.h"
#include "activation_node.h"
#include "ggml-impl.h"
#include "hooks/include/orin_hooks.h"
#include "product_node.h"

namespace orin {

size_t MatrixEdit::count_tensors(const MatrixPlan & plan) {
    size_t n = 0;
    for (const MatrixSite & site : plan.sites) {
        const bool has_views = site.gate == nullptr && site.parts.size() > 1;
        n += 1 + (has_views ? site.parts.size() : 0);
    }
    for (const RowsSite & site : plan.rows) {
        n += site.sum == nullptr ? 1 : 3;  // views of the sum and of the rows
    }
    return n;
}

MatrixEdit::MatrixEdit(ggml_context * context, const MatrixPlan & plan, MatrixSetup & setup)
    : context_(context), plan_(plan), setup_(setup) {
    for (const WriterSite & writer : plan.writers) {
        rows_[{writer.input, writer.rows}] = writer.node;
    }
    std::vector<const RowsSite *> sums;
    for (const RowsSite & site : plan.rows) {
        if (site.sum != nullptr) {
            sums.push_back(&site);
        }
    }
    std::sort(sums.begin(), sums.end(), [](const RowsSite * a, const RowsSite * b) { return a->index < b->index; });
    auto sum = sums.begin();
    for (const MatrixSite & site : plan.sites) {
        for (; sum != sums.end() && (*sum)->index < site.index; sum++) {
            add_rows(**sum, (*sum)->sum);
        }
        add_site(site);
    }
}

ggml_tensor * MatrixEdit::now(ggml_tensor * tensor) const {
    const auto found = now_.find(tensor);
    return found == now_.end() ? tensor : found->second;
}

void MatrixEdit::replace(Item & item, ggml_tensor * old, ggml_tensor * now) {
    item.results.emplace_back(old, now);
    now_[old] = now;
}

void MatrixEdit::add_rows(const RowsSite & site, ggml_tensor * place) {
    ActivationSources sources{};
    if (site.sum != nullptr) {
        ggml_tensor * other = site.sum->src[1 - site.residual_slot];
        sources.residual = now(site.sum->src[site.residual_slot]);
        sources.x = now(site.post_norm.norm == nullptr ? other : site.post_norm.norm->src[0]);
    } else {
        sources.x = now(site.norm.norm == nullptr ? site.input : site.norm.norm->src[0]);
    }
    sources.next_weights = weights_reading(site);
    const ActivationNode made = activation_node(context_, site, sources, setup_);
    Item item = {place, made.node, {}, nullptr};
    if (site.sum != nullptr) {
        replace(item, site.sum, made.sum);
    }
    rows_[{site.input, site.rows}] = made.rows;
    items_.push_back(std::move(item));
}

std::vector<ggml_tensor *> MatrixEdit::weights_reading(const RowsSite & site) const {
    const auto reader = std::find_if(plan_.sites.begin(), plan_.sites.end(), [&](const MatrixSite & candidate) {
        return candidate.input == site.input && candidate.rows == site.rows;
    });
    std::vector<ggml_tensor *> weights;
    for (const MatrixPart & part : reader->parts) {
        ggml_tensor * matrix = part.product->src[0];
        if (std::find(weights.begin(), weights.end(), matrix) == weights.end()) {
            weights.push_back(matrix);
        }
    }
    return weights;
}

ggml_tensor * MatrixEdit::input_of(const MatrixSite & site) {
    const RowsKey key = {site.input, site.rows};
    if (rows_.find(key) == rows_.end()) {
        const auto rows = std::find_if(plan_.rows.begin(), plan_.rows.end(), [&](const RowsSite & candidate) {
            return RowsKey{candidate.input, candidate.rows} == key;
        });
        if (rows == plan_.rows.end()) {
            return now(site.input);  // they are such rows as they are
        }
        add_rows(*rows, site.place);
    }
    return rows_.at(key);
}

void MatrixEdit::add_site(const MatrixSite & site) {
    ggml_tensor * input = input_of(site);
    ggml_tensor * residual = site.sum == nullptr ? nullptr : now(site.sum->src[site.residual_slot]);
    ggml_tensor * node = product_node(context_, site, input, residual, setup_);
    Item item = {site.place, node, {}, &site};
    if (site.writes) {
        rows_[{site.gate, *site.writes}] = node;
    } else if (site.sum != nullptr) {
        replace(item, site.sum, node);
    } else if (site.gate != nullptr) {
        replace(item, site.gate, node);
    } else if (site.parts.size() == 1) {
        replace(item, site.parts.front().result, node);
    } else {
        size_t offset = 0;
        for (const MatrixPart & part : site.parts) {
            const ggml_tensor & old = *part.result;
            replace(item, part.result, ggml_view_2d(context_, node, old.ne[0], old.ne[1], old.nb[1], offset));
            offset += ggml_nbytes(&old);
        }
    }
    items_.push_back(std::move(item));
}

std::vector<const MatrixSite *> MatrixEdit::unsupported() const {
    std::unordered_set<const ggml_tensor *> nodes;
    for (const Item & item : items_) {
        if (!orin_cuda_custom_supports(item.node)) {
            nodes.insert(item.node);
        }
    }
    std::vector<const MatrixSite *> sites;
    for (const Item & item : items_) {
        if (item.site == nullptr) {
            continue;
        }
        const auto input = rows_.find({item.site->input, item.site->rows});
        const ggml_tensor * rows = input == rows_.end() ? nullptr : input->second;
        if (nodes.count(item.node) + nodes.count(rows) + (rows == nullptr ? 0 : nodes.count(rows->view_src)) > 0) {
            sites.push_back(item.site);
        }
    }
    return sites;
}

std::vector<const ggml_tensor *> MatrixEdit::product_nodes() const {
    std::vector<const ggml_tensor *> nodes;
    for (const Item & item : items_) {
        if (item.site != nullptr) {
            nodes.push_back(item.node);
        }
    }
    return nodes;
}

void MatrixEdit::apply(ggml_cgraph & graph,
                       const std::function<void(ggml_tensor & node, MatrixRows rows)> & write_rows) {
    for (const Item & item : items_) {
        int index = insert_node(graph, item.node, node_index(graph, item.place));
        for (const auto & [old, now] : item.results) {
            // Of a result that is a part of a node, the allocator looks at the node to know that it is kept.
            item.node->flags |= old->flags & GGML_TENSOR_FLAG_OUTPUT;
            now->flags |= old->flags & GGML_TENSOR_FLAG_OUTPUT;
            if (now != item.node) {
                index = insert_node(graph, now, index + 1);
            }
            replace_uses(graph, old, now);
        }
    }
    remove_replaced(graph);
    for (const WriterSite & writer : plan_.writers) {
        write_rows(*writer.node, writer.rows);
    }
}

void MatrixEdit::remove_replaced(ggml_cgraph & graph) const {
    std::unordered_set<const ggml_tensor *> gone;
    const auto add = [&](const ggml_tensor * tensor) { gone.insert(tensor); };
    const auto add_norm = [&](const NormSite & site) {
        add(site.norm);
        add(site.result);
    };
    for (const MatrixSite & site : plan_.sites) {
        for (const MatrixPart & part : site.parts) {
            add(part.product);
            add(part.result);
        }
        add(site.gate);
        add(site.sum);
    }
    for (const RowsSite & site : plan_.rows) {
        add_norm(site.norm);
        add_norm(site.post_norm);
        add(site.sum);
    }
    for (int i = graph.n_nodes - 1; i >= 0; i = std::min(i, graph.n_nodes) - 1) {
        ggml_tensor * node = graph.nodes[i];
        if (gone.count(node) != 0) {
            node->flags &= ~GGML_TENSOR_FLAG_OUTPUT;
            remove_node(graph, node);
        }
    }
}

}  // namespace orin
