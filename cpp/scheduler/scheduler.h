// Requests over a page pool: asks the planner what to do, does it to the pool, and hands out the rows to compute.
//
// A step is plan(), the computation, then finish_step() or fail_step(). The next one may be planned ahead, before it is
// known what the one under way draws: two steps may be under way, and are finished in the order in which they were
// planned. One thread drives all of it. Nothing is allocated in a step once the buffers have grown.
//
// So there are two states. Planned: the planner's view of a request and the tokens that its sequence has in cells, as
// the steps under way leave them if none fails and no request ends; plan() moves it on, fail_step() takes it back.
// Known: a request's tokens, and what its sequence has committed; finish_step() moves it on.
#pragma once

#include <array>
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
    bool runs_ahead = true;  // false: for constrained decoding, where a grammar's mask needs the token before
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
    // What was cancelled is gone now, not with the next plan(); its tokens in steps under way are computed in vain.
    // Returns the requests, valid until the next call.
    const std::vector<RequestId> & drop_cancelled();

    // Valid until the step is finished. Without rows there is nothing to compute and no step to finish. Ahead, such a
    // plan changes nothing where a request would have to be preempted, dropped or expired: once the step under way is
    // finished, that may be otherwise. std::logic_error while two steps are unfinished.
    const StepBatch & plan(double now_ms);
    // What the last plan() did: requests under drop and expire are gone.
    const StepPlan & last_plan() const { return planner_.last_plan(); }

    // Of the oldest step: one token for each output of its batch. Those of requests that are gone are not looked at.
    // Returns the requests that ended, in order of outputs, valid until the next call.
    // std::logic_error without a step; std::invalid_argument for another number of tokens.
    const std::vector<RequestId> & finish_step(const std::vector<Sampled> & sampled);
    // The rows of the newest step were not computed, or in vain: all requests that are there are as before it, and will
    // be planned again. Where the older one fails, the newer has to fail before it. std::logic_error without a step.
    void fail_step();
    int32_t n_under_way() const { return n_under_way_; }

    size_t n_requests() const { return requests_.size(); }
    // Of them, those that hold pages.
    int32_t n_running() const;
    // Pages that may be in use or cached at once. False, and nothing changed, where more are in use or a request
    // needs more.
    bool set_budget(int32_t n_pages);
    // For a while there are only so many of them, if that is less: cached pages beyond are evicted, requests preempted
    // by the next plan. What does not fit alone any more is stuck.
    // PRECOND: no more are in use
    void limit_pages(int32_t n_pages);
    void lift_limit() { limit_pages(budget_); }
    // The request because of which the last plan, with no step under way, has no rows: with all pages its own it lacks
    // one for its next token. 0: there is none.
    RequestId stuck_request() const;
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
        int32_t n_reached = 0;        // most tokens that it ever had in cells, all computed
        SequenceId sequence = -1;     // while admitted
        bool runs_ahead = true;
    };

    // A request's rows in a step, and what fail_step() needs to take them back.
    struct Part {
        RequestId request;
        int32_t first;  // position
        int32_t n_tokens;
        int32_t n_known;  // of its view, as the next, before the step
        Phase phase;
        bool copied_page;
    };

    struct Step {
        StepBatch batch;
        std::vector<Part> parts;  // in order of rows

        void clear();
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

    bool is_ahead() const { return n_under_way_ > 0; }
    bool someone_ends() const;
    void release_ended();
    void apply(const StepPlan & plan, Step & step);
    void leave_pool(size_t i);
    void erase(RequestId request);

    // scheduler_step.cpp
    void take_cached_prefix(size_t i);
    void place(Step & step, RequestId id, int32_t n_tokens, bool wants_logits);
    void commit(const Part & part, int64_t & first_time);
    bool take(RequestId id, const Sampled & sampled);
    void undo(const Part & part);
    void check_under_way() const;

    const PagedKvConfig kv_config_;
    PagedKv kv_;
    Planner planner_;
    SchedulerCounters counters_{};
    RequestId next_id_ = 1;
    std::array<Step, 2> steps_;
    int32_t oldest_ = 0;  // of steps_
    int32_t n_under_way_ = 0;
    int32_t budget_;  // what kv_ has when there is no limit
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
