// How products of weights are computed on a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orin {

struct MatrixReport {
    // Of the latest graph, in products:
    int32_t n_served = 0;            // by our kernels
    int32_t n_stock = 0;             // by llama.cpp's
    std::string reason;              // why the first of these stays there
    std::vector<std::string> nodes;  // ours, as plan_words.h says them
    // Whether our kernels compute some of a graph so far, or of one with a single token.
    bool is_in_use = false;
    // The most of a graph that llama.cpp leaves to cuBLAS because it was told to.
    int32_t n_cublas = 0;
};

}  // namespace orin
