// What the ways of loading tensors share.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data_file.h"
#include "pipeline.h"
#include "read_plan.h"
#include "tensor_source.h"

namespace orin {

// How long a load goes on before it asks again whether it is to be stopped.
constexpr std::chrono::milliseconds between_stop_checks{50};

struct LoadPart {
    std::vector<TensorSource> sources;
    std::vector<std::unique_ptr<DataFile>> & files;  // by part
    bool check_tensors = false;
    // Told how many of the sources' bytes are done; false: stop.
    std::function<bool(uint64_t done_bytes)> go_on;
};

// The pieces of this part's tensors; a fragment's tensor is the number of its source.
std::vector<Piece> plan_pieces(const LoadPart & part, uint64_t most_bytes);

// Threads that read: enough to keep a disk busy, and all processors where they work on what they read, too.
size_t n_readers();
size_t n_workers();

// Throws gguf::ModelFileError where a fragment of a piece, whose bytes lie at `data`, is not sound.
void check_fragment(const LoadPart & part, const Piece & piece, const Fragment & fragment, const uint8_t * data);

// Takes all pieces; `use` is called with each and gives back what it no longer needs. False: go_on said so.
template <typename Use>
bool consume(Pipeline & pipeline, const LoadPart & part, const std::vector<Piece> & pieces, const Use & use) {
    uint64_t done = 0;
    while (!pipeline.is_at_end()) {
        if (const auto item = pipeline.take(between_stop_checks)) {
            use(*item);
            for (const Fragment & fragment : pieces[*item].fragments) {
                done += fragment.nbytes;
            }
        }
        if (!part.go_on(done)) {
            return false;
        }
    }
    return true;
}

}  // namespace orin
