#include "step_input.h"

#include <algorithm>
#include <limits>

#include "kv_pool.h"
#include "llama-batch.h"
#include "paged_graph.h"

namespace orin {
namespace {

constexpr int32_t group = 8;             // positions that are gathered together lie in one page
constexpr int64_t gather_padding = 256;  // of all

// Positions of a sequence that a step's tokens may look at.
struct Span {
    int32_t begin = std::numeric_limits<int32_t>::max();
    int32_t end = 0;

    int32_t n_places() const { return (end - begin + group - 1) / group * group; }
};

// By unique sequence of the step.
std::vector<Span> spans_of(const llama_ubatch & step, int32_t window) {
    std::vector<Span> spans(step.n_seqs_unq);
    for (uint32_t i = 0; i < step.n_tokens; i++) {
        Span & span = spans[static_cast<size_t>(step.seq_idx[step.seq_id[i][0]])];
        const int32_t first = window == 0 ? 0 : std::max(0, step.pos[i] - window + 1);
        span.begin = std::min(span.begin, first / group * group);
        span.end = std::max(span.end, step.pos[i] + 1);
    }
    return spans;
}

}  // namespace

int64_t gathered_positions(const PagedAttentionSetup & setup, const llama_ubatch & step) {
    if (static_cast<int64_t>(step.n_tokens) < setup.gather_tokens) {
        return 0;
    }
    int64_t n = 0;
    for (const Span & span : spans_of(step, setup.window)) {
        n += span.n_places();
    }
    n = (n + gather_padding - 1) / gather_padding * gather_padding;
    return n <= setup.max_gathered ? n : 0;
}

StepInput::StepInput(ggml_context * context, const PagedAttentionSetup & setup, int64_t n_tokens, bool is_prefill,
                     int64_t n_gathered)
    : tokens(ggml_new_tensor_2d(context, GGML_TYPE_I32, n_tokens, 2)),
      block_tables(ggml_new_tensor_2d(context, GGML_TYPE_I32, setup.max_pages,
                                      std::min<int64_t>(n_tokens, setup.max_sequences))),
      segments(n_gathered == 0 ? nullptr : ggml_new_tensor_2d(context, GGML_TYPE_I32, 4, block_tables->ne[1])),
      setup_(setup),
      is_prefill_(is_prefill),
      n_gathered_(n_gathered),
      row_of_(LLAMA_MAX_SEQ) {
    ggml_set_name(tokens, "paged_tokens");
    ggml_set_name(block_tables, "paged_block_tables");
    ggml_set_input(tokens);
    ggml_set_input(block_tables);
    if (segments != nullptr) {
        ggml_set_name(segments, "paged_segments");
        ggml_set_input(segments);
    }
}

void StepInput::set_input(const llama_ubatch * step) {
    set_block_tables(*step);
    auto * rows = static_cast<int32_t *>(tokens->data);
    auto * positions = rows + step->n_tokens;
    for (uint32_t i = 0; i < step->n_tokens; i++) {
        const llama_seq_id sequence = step->seq_id[i][0];
        const bool is_idle = sequence == setup_.idle_sequence;
        rows[i] = is_idle ? 0 : row_of_[static_cast<size_t>(sequence)];
        positions[i] = is_idle ? -1 : step->pos[i];
    }
    // Where the GPU's flash attention does not have these heads, nothing reads it, and it has no memory.
    if (segments != nullptr && segments->data != nullptr) {
        set_segments(*step);
    }
}

bool StepInput::can_reuse(const llm_graph_params & params) {
    return tokens->ne[0] == params.ubatch.n_tokens &&
           (!is_prefill_ || n_gathered_ == gathered_positions(setup_, params.ubatch));
}

void StepInput::set_block_tables(const llama_ubatch & step) {
    auto * next = static_cast<int32_t *>(block_tables->data);
    int32_t row = 0;
    for (uint32_t s = 0; s < step.n_seqs_unq; s++) {
        const llama_seq_id sequence = step.seq_id_unq[s];
        if (sequence != setup_.idle_sequence) {
            const std::vector<PageId> & pages = setup_.pool->pages().block_table(sequence);
            std::copy(pages.begin(), pages.end(), next);
            next += block_tables->ne[0];
            row_of_[static_cast<size_t>(sequence)] = row++;
        }
    }
}

// PRECOND: no token is idle, as in all steps with prompt tokens.
void StepInput::set_segments(const llama_ubatch & step) {
    const std::vector<Span> spans = spans_of(step, setup_.window);
    auto * next = static_cast<int32_t *>(segments->data);
    int32_t place = 0;
    for (int64_t row = 0; row < segments->ne[1]; row++, next += 4) {
        const bool is_used = row < static_cast<int64_t>(spans.size());
        const Span span = is_used ? spans[static_cast<size_t>(row)] : Span{0, 0};
        next[0] = is_used ? place : static_cast<int32_t>(n_gathered_);
        next[1] = static_cast<int32_t>(row);
        next[2] = span.begin;
        next[3] = span.end;
        place += span.n_places();
    }
}

}  // namespace orin
