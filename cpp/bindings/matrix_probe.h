// Graphs as upstream builds them around products of weights, whose nodes for matrices tests look at.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "../matrix/matrix_match.h"
#include "../matrix/matrix_setup.h"
#include "ggml-cpp.h"

namespace orin {

// Tensors are numbered in the order in which they are made; products are F32, [n_tokens, n_rows].
class MatrixProbe {
   public:
    MatrixProbe();

    int input(int64_t n_values, int64_t n_tokens);
    int weight(const std::string & name, const std::string & type, int64_t n_values, int64_t n_rows);
    int attention(int64_t head_dim, int64_t n_head, int64_t n_tokens);  // it can give its result as rows

    int multiply(int weight, int x);
    int add(int a, int b);
    int scale_by(int x, int weight);  // by each channel's
    int rms_norm(int x);
    int glu(const std::string & op, int a, int b, bool swapped);  // b: -1: both are halves of a
    int reshape(int x, int64_t n_values, int64_t n_heads);        // [n_tokens, n_heads, n_values]
    int flatten(int x);                                           // and back
    int pick_rows(int x, int64_t n);

    void expand(int tensor);
    void set_output(int tensor);

    // left: names of weights whose products stay as they are.
    pybind11::dict plan(const std::set<std::string> & left) const;
    // Puts the plan's nodes into the graph. Throws std::logic_error where the graph contradicts itself then.
    void apply(const std::set<std::string> & left);
    // Nodes of the graph: their operations, their names, and the names of what they read.
    pybind11::list nodes() const;
    // Names of the nodes that are results.
    std::vector<std::string> outputs() const;

   private:
    int add_tensor(ggml_tensor * tensor);
    ggml_tensor * at(int number) const { return tensors_.at(static_cast<size_t>(number)); }
    MatrixServices services(const std::set<std::string> & left) const;
    void check() const;

    ggml_context_ptr context_;
    ggml_cgraph * graph_;
    std::vector<ggml_tensor *> tensors_;
    std::set<const ggml_tensor *> weights_;
    std::set<const ggml_tensor *> writers_;
    MatrixSetup setup_;
};

// Adds the class to _native.testing.
void bind_matrix_probe(pybind11::module_ & m);

}  // namespace orin
