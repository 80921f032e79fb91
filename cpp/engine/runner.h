// Many requests on one model: a thread of its own takes steps while there is work. Other threads reach it through the
// mailbox; all that touches the model or the page pool happens on that thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core.h"

namespace orin {

// Its methods may be called from any thread.
class Runner {
   public:
    // The thread, and those that it starts to compute, run on these cores; on all where there are none. Throws what
    // make_stepper does, EngineError where the cores cannot be had.
    explicit Runner(const MakeStepper & make_stepper, const std::vector<int32_t> & cpus = {});
    ~Runner() { close(); }
    Runner(const Runner &) = delete;
    Runner & operator=(const Runner &) = delete;

    // Throws sampling::RowError where the sampler's parameters make no sense, EngineError for a token that does not
    // exist, and once closed. What cannot fit (RequestTooLong) is found on the engine's thread and ends the completion.
    std::shared_ptr<Completion> submit(CompletionParams params, Sampler sampler);
    // Does `work` on the engine's thread between two steps and waits for it; what it throws is thrown here.
    void between_steps(const std::function<void()> & work);
    // Stops within the step under way; what is not finished fails. Waits for the thread.
    void close();

    EngineStats stats() const { return core_.ledger().stats(); }
    std::vector<AnswerRecord> answers() const { return core_.ledger().answers(); }
    std::vector<StepRecord> steps_after(int64_t number) const { return core_.ledger().steps_after(number); }
    Doorbells & doorbells() { return core_.doorbells(); }

   private:
    void run();
    void take_steps();
    void read_mail(bool wait);

    const std::shared_ptr<Mailbox> mailbox_;
    Core core_;
    std::mutex closing_mutex_;
    std::thread thread_;  // last: uses all others
};

}  // namespace orin
