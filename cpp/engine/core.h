// The requests under way on a model, and the steps that serve them: plan, start, collect, hand out. Where the computer
// lets two steps be under way, the next one is started before the one before is collected: a device that feeds the
// drawn tokens itself never waits for this thread. One thread; only the statistics are for others.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "completion.h"
#include "doorbells.h"
#include "ledger.h"
#include "mailbox.h"

namespace orin {

using MakeStepper = std::function<std::unique_ptr<Stepper>(const StopCheck & stop)>;

class Core {
   public:
    // `mailbox` says when to stop within a step. Throws what make_stepper does.
    Core(const MakeStepper & make_stepper, std::shared_ptr<const Mailbox> mailbox);

    // What cannot fit ends at once, with RequestTooLong.
    void admit(std::shared_ptr<Completion> completion);
    // Completions that have been cancelled end.
    void drop_cancelled();
    // Starts what may be started, and hands out what the oldest step under way has drawn. Does nothing where there is
    // nothing to do.
    void step();
    bool is_idle() { return n_under_way_ == 0 && stepper_->scheduler().n_requests() == 0; }
    // Hands out all that is under way. Before the stepper is used otherwise than by steps.
    void settle();
    // After it was.
    void refresh();
    // Memory that is not needed is given back. PRECOND: no step is under way.
    void trim();
    void fail_all(const std::string & reason);

    Stepper & stepper() { return *stepper_; }

    // --- any thread
    const Ledger & ledger() const { return ledger_; }
    Doorbells & doorbells() { return doorbells_; }

   private:
    struct Request {
        RequestId id;
        std::shared_ptr<Completion> completion;
        bool has_started = false;
        bool has_ended = false;  // there may still be steps under way that compute tokens for it, in vain
    };
    using RequestPtr = std::shared_ptr<Request>;

    struct Step {
        std::vector<RequestPtr> requests;  // with tokens in it
        std::vector<Request *> outputs;    // of them, those whose tokens it draws
        StepRecord record{};

        void clear();
    };

    // core_step.cpp: until a step is under way
    bool start_next();
    const StepBatch & plan(Step & step, double now);
    void note_plan(Step & step, const StepBatch & batch, double now);
    void note_given_up(Step & step);
    void note_started(const Step & step);
    void start(Step & step, const StepBatch & batch);
    void take_fewer_pages(const KvFull & shortage);
    void take_all_pages();
    void fail_stuck();
    static bool should_stop(void * data);

    // core_collect.cpp: from then on
    void collect();
    void discard_all();
    void note_computed(Step & step);
    void finish(Step & step, std::vector<DrawnOutput> & drawn);
    void hand_out(const Step & step, std::vector<DrawnOutput> & drawn);

    void wake();
    void fail(const Step & step, const std::exception_ptr & error);
    void drop(Ending ending, const std::exception_ptr & error);
    void end(RequestId id, Ending ending, std::exception_ptr error = nullptr);

    const std::shared_ptr<const Mailbox> mailbox_;
    const std::unique_ptr<Stepper> stepper_;
    const std::vector<bool> is_end_token_;  // [n_vocab]
    Doorbells doorbells_;
    std::unordered_map<RequestId, RequestPtr> requests_;
    int64_t n_evicted_ = 0;  // pages that were given up for the steps that were started
    int64_t n_preempted_ = 0;
    bool has_new_requests_ = false;  // that were not published

    std::array<Step, 2> steps_;
    int32_t oldest_ = 0;  // of steps_
    int32_t n_under_way_ = 0;
    const Step * computed_ = nullptr;  // by the computer, now
    bool must_forget_ = false;         // as soon as no step is under way, as the next
    bool must_trim_ = false;
    std::exception_ptr shortage_;  // why there are fewer pages than there may be; null: there are all

    // Of the step that is started or collected now:
    std::vector<OutputDraw> draws_;
    std::vector<Sampled> sampled_;
    double last_check_ms_ = 0.0;
    double last_done_ms_ = 0.0;  // when the step before was handed out

    std::vector<std::shared_ptr<Completion>> to_wake_;
    Ledger ledger_;
};

}  // namespace orin
