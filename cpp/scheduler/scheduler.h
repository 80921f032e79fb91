// Requests over a page pool: asks the planner what to do, does it to the pool, and hands out the rows to compute.
//
// A step is plan(), the computation, then finish_step() or fail_step(). One thread drives all of it. Nothing is
// allocated in a step once the buffers have grown.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "../pages/paged_kv.h"
#include "planner.h"
#include "scheduler_counters.h"
#include "step_batch.h"

namespace orin {

// A request that could not be computed even if it were alone. The message names the limit and both sizes.
class RequestTooLong : public std::invalid_argument {
   public:
    using std::invalid_argument::invalid_argument;
};

struct RequestParams {
    std::vector<int32_t> prompt;
    int32_t max_tokens = 1;
    int32_t priority = 0;
    double deadline_ms = std::numeric_limits<double>::infinity();  // of the clock of plan(); no step begins after it
};

struct Sampled {
    int32_t token;
    bool ends;  // the request, which in any case ends at max_tokens
};

class Scheduler {
   public:
    // std::invalid_argument says which setting is wrong. The pool needs max_sequences >= max_batch.
    Scheduler(const PlannerConfig & config, const PagedKvConfig & kv_config);

    // Throws RequestTooLong, and std::invalid_argument for an empty prompt or no tokens to generate.
    RequestId submit(const RequestParams & params, double now_ms);
    // Takes effect in the next plan(), or with drop_cancelled(). False when there is no such request (any more).
    bool cancel(RequestId request);
    // What was cancelled is gone now, not with the next plan(). Returns the requests, valid until the next call.
    // std::logic_error while a step is unfinished.
    const std::vector<RequestId> & drop_cancelled();

    // Valid until the next call. Without rows there is nothing to compute and no step to finish.
    // std::logic_error while a step is unfinished.
    const StepBatch & plan(double now_ms);
    // What the last plan() did: requests under drop and expire are gone.
    const StepPlan & last_plan() const { return planner_.last_plan(); }

    // One token for each output of the batch. Returns the requests that ended, valid until the next call.
    // std::logic_error without a step; std::invalid_argument for another number of tokens.
    const std::vector<RequestId> & finish_step(const std::vector<Sampled> & sampled);
    // The rows were not computed, or in vain: all requests are as before the step, and will be planned again.
    void fail_step();

    size_t n_requests() const { return requests_.size(); }
    // Of them, those that hold pages.
    int32_t n_running() const;
    // Pages that may be in use or cached at once. False, and nothing changed, where more are in use or a request
    // needs more.
    bool set_budget(int32_t n_pages);
    // The prompt and the tokens generated so far. std::out_of_range for a request that is not there (any more).
    const std::vector<int32_t> & tokens(RequestId request) const;
    const PlannerConfig & config() const { return planner_.config(); }
    const SchedulerCounters & counters() const { return counters_; }
    // For block tables, counters and what is cached. Its sequences and its budget are the scheduler's own.
    PagedKv & kv() { return kv_; }

   private:
    struct Request {
        std::vector<int32_t> tokens;  // known: the prompt, then what was generated; room for all
        int32_t n_final = 0;          // tokens when it ends at the latest
        int32_t n_reached = 0;        // most tokens that it ever had in cells
        SequenceId sequence = -1;     // while admitted
        bool copied_page = false;     // in the step under way
    };

    size_t find(RequestId request) const;  // requests_.size() when it is not there
    int32_t pages_for_all_of(int32_t n_tokens) const;
    void check_fits(const RequestParams & params) const;

    // scheduler_views.cpp
    void look_at_pool();
    void look_up_prefix(size_t i);
    void look_up_candidates();
    void look_up_pages_given_back();
    bool is_more_senior(size_t a, size_t b) const;

    void release_ended();
    void apply(const StepPlan & plan);
    void take_cached_prefix(size_t i);
    void place(RequestId id, int32_t n_tokens, bool wants_logits);
    void commit(size_t i, int64_t & first_time);
    void undo(size_t i);
    void leave_pool(size_t i);
    void erase(RequestId request);

    const PagedKvConfig kv_config_;
    PagedKv kv_;
    Planner planner_;
    SchedulerCounters counters_{};
    RequestId next_id_ = 1;
    bool step_under_way_ = false;
    // Of the last plan():
    StepBatch batch_;
    std::vector<RequestId> finished_;
    std::vector<RequestId> dropped_;

    // The same request has the same index in both, in the order of ids.
    std::vector<Request> requests_;
    PlannerState state_;

    // While the pool is looked at:
    std::vector<size_t> running_;  // indices of requests
    std::vector<size_t> waiting_;
    std::vector<int32_t> n_holders_;  // [pages]
};

}  // namespace orin
