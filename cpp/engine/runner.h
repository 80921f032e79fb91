// Many requests on one model: a thread of its own plans, computes and draws, step by step, while there is work.
//
// All that touches the model or the page pool happens on that thread; other threads reach it through the mailbox.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "completion.h"
#include "doorbells.h"
#include "engine_stats.h"
#include "mailbox.h"
#include "stepper.h"

namespace orin {

class Runner {
   public:
    // Throws LoadError, EngineError.
    Runner(std::shared_ptr<Model> model, const EngineParams & params);
    ~Runner() { close(); }
    Runner(const Runner &) = delete;
    Runner & operator=(const Runner &) = delete;

    // --- any thread
    // Throws sampling::RowError where the sampler's parameters make no sense, EngineError for a token that does not
    // exist, and once closed. What cannot fit (RequestTooLong) is found on the engine's thread and ends the completion.
    std::shared_ptr<Completion> submit(CompletionParams params, Sampler sampler);
    // Does `work` on the engine's thread between two steps and waits for it; what it throws is thrown here.
    void between_steps(const std::function<void(Stepper &)> & work);
    EngineStats stats() const;
    std::vector<StepRecord> steps_after(int64_t number) const;
    Doorbells & doorbells() { return doorbells_; }
    // Stops within the step under way; what is not finished fails. Waits for the thread.
    void close();

    bool is_paged() { return stepper_.computer().pool() != nullptr; }
    const std::string & refusal() const { return stepper_.refusal(); }

   private:
    struct Request {
        std::shared_ptr<Completion> completion;
        bool has_started = false;
        bool is_cancelled = false;
        std::exception_ptr error = nullptr;  // why it was given up
    };

    void run();
    void read_mail(bool wait);
    void admit(std::shared_ptr<Completion> completion);
    void pass_on_cancelled();
    void step();
    void note_plan(const StepBatch & batch, double now);
    void compute(const StepBatch & batch);
    void draw(const StepBatch & batch);
    void finish(const StepBatch & batch);
    void hand_out(const StepBatch & batch);
    void publish_stats();
    void fail_all(const std::string & reason);
    void give_up(RequestId id, std::exception_ptr error);
    void end(RequestId id, Ending ending, std::exception_ptr error = nullptr);
    static bool should_stop(void * data);

    const std::shared_ptr<Mailbox> mailbox_;
    Stepper stepper_;
    std::vector<bool> is_end_token_;  // [n_vocab]
    sampling::Workspace workspace_;
    Doorbells doorbells_;

    // The engine's thread alone:
    std::unordered_map<RequestId, Request> requests_;
    std::vector<Completion *> in_step_;  // with tokens in the step under way
    std::vector<sampling::Row> rows_;
    std::vector<int32_t> drawn_;  // of the batch's outputs: a token, or a sampling::Failure
    std::vector<Sampled> sampled_;
    std::vector<DrawnToken> tokens_;
    double last_check_ms_ = 0.0;
    StepRecord record_{};  // of the step under way
    EngineStats counted_;

    mutable std::mutex published_mutex_;
    EngineStats published_;
    StepLog log_;

    std::mutex closing_mutex_;
    std::thread thread_;  // last: uses all others
};

}  // namespace orin
