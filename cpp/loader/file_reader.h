// A whole file in order, read ahead by worker threads, with its tensors validated on the way.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../gguf/header.h"
#include "data_file.h"
#include "pipeline.h"
#include "read_plan.h"
#include "staging.h"

namespace orin {

class FileReader {
   public:
    struct Options {
        size_t n_threads = 4;
        size_t piece_bytes = 8u << 20;
    };

    struct View {
        uint64_t offset = 0;
        const uint8_t * data = nullptr;
        size_t nbytes = 0;
    };

    // `tensors` are those of this file to validate, if any; their parts do not matter. Throws gguf::ModelFileError.
    FileReader(const std::string & path, std::vector<gguf::TensorInfo> tensors, const Options & options);

    uint64_t size() const { return file_.size(); }
    uint64_t direct_bytes() const { return file_.direct_bytes(); }

    // The next piece, good until the next call; none where reading it takes longer, or the file is at its end. Pieces
    // follow one another without a gap. Throws gguf::ModelFileError. From any thread.
    std::optional<View> next(std::chrono::milliseconds longest);
    bool is_at_end() const;
    // Ends the threads; the file is at its end then.
    void close();

    // Of what was read so far: the name of each tensor with values that are not finite, and where in the file the first
    // block of it begins that has one. In the order of `tensors`.
    std::vector<std::pair<std::string, uint64_t>> invalid() const;

   private:
    void stage(size_t item, size_t slot);

    const std::vector<gguf::TensorInfo> tensors_;
    DataFile file_;
    const std::vector<Piece> pieces_;
    const size_t n_slots_;
    const StagingMemory memory_;
    std::vector<const uint8_t *> data_;  // by slot

    mutable std::mutex invalid_mutex_;
    std::map<size_t, uint64_t> invalid_;  // by tensor

    mutable std::mutex consumer_;
    std::unique_ptr<Pipeline> pipeline_;  // null: closed
};

}  // namespace orin
