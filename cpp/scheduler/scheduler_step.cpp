// What becomes of a step: its tokens are placed, then they are known, or the step fails.
#include <algorithm>
#include <cstddef>
#include <string>

#include "scheduler.h"

namespace orin {

void Scheduler::Step::clear() {
    batch.rows.clear();
    batch.outputs.clear();
    batch.copies.clear();
    parts.clear();
}

void Scheduler::take_cached_prefix(size_t i) {
    RequestView & view = state_.requests[i];
    if (view.n_placed > 0) {
        return;
    }
    Request & request = requests_[i];
    view.n_placed = kv_.adopt_prefix(request.sequence, request.tokens.data(), view.n_known);
    request.n_reached = std::max(request.n_reached, view.n_placed);
    counters_.prefix_tokens_reused += view.n_placed;
}

// From here on the request is seen as the step leaves it.
void Scheduler::place(Step & step, RequestId id, int32_t n_tokens, bool wants_logits) {
    const size_t i = find(id);
    const Request & request = requests_[i];
    RequestView & view = state_.requests[i];
    const int32_t first = view.n_placed;
    // All that is placed was drawn before, but for the last token of a request with a step under way.
    const bool is_known = static_cast<size_t>(first) < request.tokens.size();
    const int32_t * tokens = is_known ? request.tokens.data() + first : &unknown_token;
    const size_t n_copies = kv_.pending_copies().size();
    if (!kv_.append(request.sequence, tokens, n_tokens)) {
        throw std::logic_error("the plan takes more pages than the pool has: " + last_plan().to_string());
    }
    StepBatch & batch = step.batch;
    for (int32_t k = 0; k < n_tokens; k++) {
        batch.rows.push_back({tokens[k], request.sequence, first + k, kv_.cell(request.sequence, first + k), false});
    }
    const bool copied_page = kv_.pending_copies().size() > n_copies;
    step.parts.push_back({id, first, n_tokens, view.n_known, view.phase, copied_page});
    view.n_placed += n_tokens;
    if (wants_logits) {
        batch.rows.back().wants_logits = true;
        batch.outputs.push_back({static_cast<int32_t>(batch.rows.size()) - 1, id});
        view.phase = Phase::decode;
        const bool is_last = static_cast<int32_t>(view.n_known) + 1 == request.n_final;
        view.n_known += request.runs_ahead && !is_last;
    }
}

const std::vector<RequestId> & Scheduler::finish_step(const std::vector<Sampled> & sampled) {
    check_under_way();
    const Step & step = steps_[static_cast<size_t>(oldest_)];
    const std::vector<BatchOutput> & outputs = step.batch.outputs;
    if (sampled.size() != outputs.size()) {
        throw std::invalid_argument(std::to_string(sampled.size()) + " tokens for a step with " +
                                    std::to_string(outputs.size()) + " outputs");
    }
    oldest_ = 1 - oldest_;
    n_under_way_--;
    counters_.steps++;
    const auto n_decode = static_cast<size_t>(step.batch.n_decode_rows);
    for (size_t k = 0; k < step.parts.size(); k++) {
        commit(step.parts[k], k < n_decode ? counters_.tokens_decoded : counters_.tokens_prefilled);
    }
    finished_.clear();
    for (size_t k = 0; k < sampled.size(); k++) {
        if (take(outputs[k].request, sampled[k])) {
            finished_.push_back(outputs[k].request);
        }
    }
    for (const RequestId request : finished_) {
        erase(request);
        counters_.finished++;
    }
    return finished_;
}

// Counts the tokens placed in this step into `first_time`, or as recomputed.
void Scheduler::commit(const Part & part, int64_t & first_time) {
    const size_t i = find(part.request);
    if (i == requests_.size()) {
        return;  // computed in vain
    }
    Request & request = requests_[i];
    const int32_t end = part.first + part.n_tokens;
    kv_.commit(request.sequence, end);
    const int32_t n_again = std::clamp(request.n_reached - part.first, 0, part.n_tokens);
    counters_.tokens_recomputed += n_again;
    first_time += part.n_tokens - n_again;
    request.n_reached = std::max(request.n_reached, end);
}

// Whether the request ends with this token.
bool Scheduler::take(RequestId id, const Sampled & sampled) {
    const size_t i = find(id);
    if (i == requests_.size()) {
        return false;
    }
    Request & request = requests_[i];
    RequestView & view = state_.requests[i];
    request.tokens.push_back(sampled.token);
    const auto n_tokens = static_cast<int32_t>(request.tokens.size());
    if (view.n_placed == n_tokens) {  // by the step that is under way
        kv_.set_token(request.sequence, n_tokens - 1, sampled.token);
    }
    view.n_known = std::max(view.n_known, n_tokens);
    return sampled.ends || n_tokens == request.n_final;
}

void Scheduler::fail_step() {
    check_under_way();
    n_under_way_--;
    const Step & step = steps_[static_cast<size_t>((oldest_ + n_under_way_) % 2)];
    counters_.failed_steps++;
    for (const Part & part : step.parts) {
        undo(part);
    }
}

void Scheduler::undo(const Part & part) {
    const size_t i = find(part.request);
    if (i == requests_.size()) {
        return;
    }
    RequestView & view = state_.requests[i];
    int32_t n_keep = part.first;
    if (part.copied_page) {
        n_keep -= n_keep % kv_config_.page_size;  // whether the copy was made is not known
    }
    view.n_placed = kv_.truncate(requests_[i].sequence, n_keep);
    view.n_known = part.n_known;
    view.phase = view.n_known - view.n_placed > 1 ? Phase::prefill : part.phase;
}

void Scheduler::check_under_way() const {
    if (n_under_way_ == 0) {
        throw std::logic_error("no step is under way: plan one that has rows first");
    }
}

}  // namespace orin
