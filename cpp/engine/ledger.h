// The statistics of an engine: its thread counts, others read. What is handed out while they are held is in them when
// somebody reads them next.
#pragma once

#include <mutex>
#include <vector>

#include "answer_log.h"
#include "engine_stats.h"
#include "stepper.h"

namespace orin {

class Ledger {
   public:
    // --- any thread
    EngineStats stats() const;
    std::vector<AnswerRecord> answers() const;
    std::vector<StepRecord> steps_after(int64_t number) const;

    // --- the engine's thread
    // What only it counts; the rest comes from the stepper when it is published.
    EngineStats & counts() { return counts_; }
    // Until it is released, readers wait.
    std::unique_lock<std::mutex> hold() const { return std::unique_lock(mutex_); }
    // While it is held.
    void publish(Stepper & stepper);
    // For the last time, while it is held: nothing runs or waits any more.
    void close();
    // While it is held.
    void add(const AnswerRecord & answer) { answers_.add(answer); }
    // Of the step that was published last: what it left behind is filled in.
    void log(StepRecord record);

   private:
    EngineStats counts_;

    mutable std::mutex mutex_;
    EngineStats published_;
    StepLog log_;
    AnswerLog answers_;
};

}  // namespace orin
