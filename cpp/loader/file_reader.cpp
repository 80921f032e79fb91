#include "file_reader.h"

#include <algorithm>

#include "not_finite.h"

namespace orin {
namespace {

constexpr size_t no_tensor = SIZE_MAX;

// All bytes of the file: the tensors, and what lies between them.
std::vector<Span> whole_file(const std::vector<gguf::TensorInfo> & tensors, uint64_t size) {
    std::vector<Span> spans;
    for (size_t i = 0; i < tensors.size(); i++) {
        spans.push_back({i, 0, tensors[i].offset, tensors[i].nbytes, tensors[i].type->block_bytes});
    }
    std::sort(spans.begin(), spans.end(), [](const Span & a, const Span & b) { return a.offset < b.offset; });
    uint64_t end = 0;
    const size_t n = spans.size();
    for (size_t i = 0; i < n; i++) {
        const Span span = spans[i];
        if (span.offset > end) {
            spans.push_back({no_tensor, 0, end, span.offset - end, 1});
        }
        end = span.offset + span.nbytes;
    }
    if (size > end) {
        spans.push_back({no_tensor, 0, end, size - end, 1});
    }
    return spans;
}

}  // namespace

FileReader::FileReader(const std::string & path, std::vector<gguf::TensorInfo> tensors, const Options & options)
    : tensors_(std::move(tensors)),
      file_(path, Caching::bypass),
      pieces_(plan_pieces(whole_file(tensors_, file_.size()), options.piece_bytes, 0)),
      n_slots_(std::clamp<size_t>(pieces_.size(), 1, options.n_threads + 2)),
      memory_(n_slots_, slot_bytes(pieces_)),
      data_(n_slots_, nullptr) {
    pipeline_ = std::make_unique<Pipeline>(pieces_.size(), n_slots_, options.n_threads,
                                           [this](size_t item, size_t slot) { stage(item, slot); });
}

std::optional<FileReader::View> FileReader::next(std::chrono::milliseconds longest) {
    const std::lock_guard lock(consumer_);
    if (pipeline_ == nullptr) {
        return std::nullopt;
    }
    if (pipeline_->n_held() > 0) {
        pipeline_->release();
    }
    const std::optional<size_t> item = pipeline_->take(longest);
    if (!item) {
        return std::nullopt;
    }
    const Piece & piece = pieces_[*item];
    return View{piece.offset, data_[*item % n_slots_], static_cast<size_t>(piece.nbytes)};
}

bool FileReader::is_at_end() const {
    const std::lock_guard lock(consumer_);
    return pipeline_ == nullptr || pipeline_->is_at_end();
}

void FileReader::close() {
    const std::lock_guard lock(consumer_);
    pipeline_.reset();
}

std::vector<std::pair<std::string, uint64_t>> FileReader::invalid() const {
    const std::lock_guard lock(invalid_mutex_);
    std::vector<std::pair<std::string, uint64_t>> result;
    for (const auto & [tensor, offset] : invalid_) {
        result.emplace_back(tensors_[tensor].name, offset);
    }
    return result;
}

void FileReader::stage(size_t item, size_t slot) {
    const Piece & piece = pieces_[item];
    const uint8_t * const data = file_.read(piece.offset, piece.nbytes, memory_.slot(slot));
    data_[slot] = data;
    for (const Fragment & fragment : piece.fragments) {
        if (fragment.tensor == no_tensor) {
            continue;
        }
        const uint64_t at = fragment.piece_offset;
        if (const auto bad = find_not_finite(*tensors_[fragment.tensor].type, data + at, fragment.nbytes)) {
            const std::lock_guard lock(invalid_mutex_);
            uint64_t & first = invalid_.emplace(fragment.tensor, UINT64_MAX).first->second;
            first = std::min(first, piece.offset + at + *bad);
        }
    }
}

}  // namespace orin
