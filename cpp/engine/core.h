// The requests under way on a model, and the steps that serve them: plan, compute, draw, hand out. One thread; only the
// statistics are for others.
#pragma once

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
    // Does nothing where there is nothing to do.
    void step();
    bool is_idle() { return stepper_->scheduler().n_requests() == 0; }
    // Memory that is not needed is given back.
    void trim();
    void fail_all(const std::string & reason);

    Stepper & stepper() { return *stepper_; }
    // After the stepper was used otherwise than by steps.
    void refresh();

    // --- any thread
    const Ledger & ledger() const { return ledger_; }
    Doorbells & doorbells() { return doorbells_; }

   private:
    struct Request {
        std::shared_ptr<Completion> completion;
        bool has_started = false;
    };

    const StepBatch & plan(double now);
    void note_plan(const StepBatch & batch, double now);
    void compute(const StepBatch & batch);
    void finish(const StepBatch & batch);
    void hand_out(const StepBatch & batch);
    void wake();
    void drop(Ending ending, std::exception_ptr error);
    void end(RequestId id, Ending ending, std::exception_ptr error = nullptr);
    static bool should_stop(void * data);

    const std::shared_ptr<const Mailbox> mailbox_;
    const std::unique_ptr<Stepper> stepper_;
    const std::vector<bool> is_end_token_;  // [n_vocab]
    Doorbells doorbells_;
    std::unordered_map<RequestId, Request> requests_;

    // Of the step under way:
    std::vector<Completion *> in_step_;  // with tokens in it
    std::vector<OutputDraw> draws_;      // of its outputs, as the next two
    std::vector<DrawnOutput> * drawn_ = nullptr;
    std::vector<Sampled> sampled_;
    double last_check_ms_ = 0.0;
    StepRecord record_{};

    std::vector<std::shared_ptr<Completion>> to_wake_;
    Ledger ledger_;
};

}  // namespace orin
