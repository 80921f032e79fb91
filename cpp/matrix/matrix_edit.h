// Puts the nodes of a plan into the graph that it was made for.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "matrix_match.h"
#include "matrix_setup.h"

struct ggml_cgraph;
struct ggml_context;

namespace orin {

// PRECOND of all: the plan outlives it, and the graph is as it was when the plan was made, until apply().
class MatrixEdit {
   public:
    // How many tensors it makes of a plan, all of them nodes of the graph.
    static size_t count_tensors(const MatrixPlan & plan);

    // Makes the nodes; the graph stays as it is.
    MatrixEdit(ggml_context * context, const MatrixPlan & plan, MatrixSetup & setup);

    // Those whose nodes, or the ones that make what they read, have no kernel.
    std::vector<const MatrixSite *> unsupported() const;

    std::vector<const ggml_tensor *> product_nodes() const;

    // Changes the graph. write_rows: lets a node of ours give its result as rows.
    void apply(ggml_cgraph & graph, const std::function<void(ggml_tensor & node, MatrixRows rows)> & write_rows);

    // What stands for a tensor then; itself where nothing took its place.
    ggml_tensor * now(ggml_tensor * tensor) const;

   private:
    struct Item {
        ggml_tensor * place;
        ggml_tensor * node;
        std::vector<std::pair<ggml_tensor *, ggml_tensor *>> results;  // an old tensor, and what stands for it
        const MatrixSite * site;                                       // null: it makes rows
    };
    using RowsKey = std::pair<const ggml_tensor *, MatrixRows>;  // of what activations

    void add_rows(const RowsSite & site, ggml_tensor * place);
    void add_site(const MatrixSite & site);
    ggml_tensor * input_of(const MatrixSite & site);
    std::vector<ggml_tensor *> weights_reading(const RowsSite & site) const;
    void replace(Item & item, ggml_tensor * old, ggml_tensor * now);
    void remove_replaced(ggml_cgraph & graph) const;

    ggml_context * const context_;
    const MatrixPlan & plan_;
    MatrixSetup & setup_;
    std::vector<Item> items_;
    std::map<RowsKey, ggml_tensor *> rows_;
    std::unordered_map<const ggml_tensor *, ggml_tensor *> now_;
};

}  // namespace orin
