// The step planner: which tokens of which requests the next step computes. A pure function of its arguments.
//
// Seniority. The lower arrival_ms - priority * head_start_ms is, the more senior a request; ties go to the lower id. A
// level of priority is a head start in time, so that no level keeps another waiting for ever.
//
// The chunk. A share of the prompt tokens of a step belongs to the prompts in prefill in order of seniority: half of
// them (ttft: a quarter), rounded up. The rest goes to the prompts with the fewest tokens left. Hence, where pages
// suffice:
//   - The prompt with the fewest tokens left is done in the next step if these are at most chunk - share.
//   - A prompt that is not preempted is done within ceil(sum / share) steps, where sum is what it and all more senior
//     prompts in prefill have left, and what those bring that come to be admitted before it, by their head start. For
//     until it is done, every step computes `share` of these tokens, or all that are left.
// `chunk` is chunk_size; under tpot it is max(page_size, chunk_size / tpot_divisor) while anything decodes.
//
// Decode. Every decoding request gets its token in every step, unless it has none left: the last one is being drawn.
// Under ttft steps with prompt tokens do without, at most max_stall_steps in a row, while no more than half of
// max_batch are admitted and none waits.
//
// Admission. A waiting request is admitted when the pages that all admitted requests have still to take for their known
// tokens, its own, and the headroom are available. A smaller one may pass by one that does not fit, but at most
// max_overtakes times; then it blocks all less senior ones until it fits. It fits at the latest when no request is
// admitted any more, for a request that is alone is always admitted.
//
// Preemption. When the pages do not suffice for the decode tokens and the seniors' share of the chunk, the least senior
// admitted request gives its pages back and waits again. The most senior one is never preempted: it gets its share in
// every step and ends, then the next one is the most senior; so every request ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner_state.h"

namespace orin {

struct PrefillPart {
    RequestId id;
    int32_t n_tokens;
    bool reaches_end;  // of the known tokens: yields logits
};

// Lists of different phases share no request, but those admitted may appear in `prefill`.
struct StepPlan {
    std::vector<RequestId> drop;       // cancelled
    std::vector<RequestId> expire;     // past their deadline
    std::vector<RequestId> preempt;    // least senior first
    std::vector<RequestId> admit;      // most senior first, as all that follow
    std::vector<RequestId> overtaken;  // once for every admission that passed by the request
    std::vector<RequestId> decode;     // one token each
    std::vector<PrefillPart> prefill;
    bool stalls_decode = false;  // decode tokens were left out for prompts

    void clear();
    std::string to_string() const;
};

bool more_senior(const PlannerConfig & config, const RequestView & a, const RequestView & b);
// Whether the next plan drops the request or lets it expire.
bool ends(const RequestView & request, double now_ms);

// Throws std::invalid_argument naming the setting that makes no sense.
void check(const PlannerConfig & config);

// Keeps its buffers, so that a plan allocates nothing once they have grown.
class Planner {
   public:
    explicit Planner(const PlannerConfig & config);

    const PlannerConfig & config() const { return config_; }

    // Looks at the max_batch most senior waiting requests for admission; what is cached of others is not read.
    // One that is alone and lacks a page for its next token gets none. Valid until the next call.
    const StepPlan & plan(const PlannerState & state);
    const StepPlan & last_plan() const { return plan_; }
    // The last plan is not carried out.
    void clear() { plan_.clear(); }

   private:
    struct Candidate {
        const RequestView * view;
        int32_t n_left;    // known tokens to place after this step
        int32_t n_tokens;  // in this step
    };

    void sort_out_ended();
    void preempt();
    void admit();
    void plan_decode();
    void split_chunk();
    void grant(Candidate & prompt, int32_t n_tokens);

    bool may_stall_decode() const;
    int32_t chunk_size() const;
    int32_t senior_share(int32_t chunk) const;
    int32_t pages_for(int32_t n_tokens) const;
    int32_t pages_to_begin(const RequestView & request) const;
    int32_t pages_to_place(const RequestView & request, int32_t n_tokens) const;
    int32_t tokens_in(const RequestView & request, int32_t n_pages) const;
    int32_t pages_to_come(const RequestView & request) const;
    int32_t pages_wanted() const;

    const PlannerConfig config_;
    StepPlan plan_;
    // While a plan is made:
    const PlannerState * state_ = nullptr;
    int32_t pages_left_ = 0;
    std::vector<const RequestView *> running_;  // most senior first
    std::vector<const RequestView *> waiting_;
    std::vector<const RequestView *> skipped_;
    std::vector<Candidate> prompts_;
    std::vector<Candidate *> by_length_;
};

// The same with buffers of its own.
StepPlan plan_step(const PlannerConfig & config, const PlannerState & state);

}  // namespace orin
