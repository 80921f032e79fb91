// One request as both sides see it: the engine's thread adds tokens, a consumer on any thread takes them.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "../sampling/logprobs.h"
#include "answer_log.h"
#include "sampler.h"

namespace orin {

class Mailbox;

struct CompletionParams {
    std::vector<int32_t> prompt;
    int32_t max_tokens = 1;
    int32_t n_logprobs = -1;  // likeliest tokens to report at each place; -1: no log-probabilities
    bool ignore_eos = false;  // tokens that end an answer do not end this one
    int32_t priority = 0;
    double timeout_ms = 0.0;  // 0: none
};

struct DrawnToken {
    int32_t token;
    double time_ms;
    std::vector<sampling::TokenLogprob> logprobs;  // see sampling::top_logprobs
};

enum class Ending {
    none,  // it goes on
    stop,  // the model ended it; the last token says so
    length,
    cancelled,
    deadline,
    failed,
};

// Times are of now_ms(), 0 where it has not come that far.
struct CompletionReport {
    double submitted_ms = 0.0;
    double started_ms = 0.0;    // the first step with tokens of it
    double prefilled_ms = 0.0;  // its first logits
    double ended_ms = 0.0;
    double upload_ms = 0.0;    // of all steps with tokens of it
    double sampling_ms = 0.0;  // its share
    int32_t cached_tokens = 0;
    int32_t preemptions = 0;
    Ending ending = Ending::none;
};

class Completion {
   public:
    Completion(CompletionParams params, Sampler sampler, std::shared_ptr<Mailbox> mailbox);

    // --- the consumer. All but cancel() throw EngineError in a fork, where nothing comes any more.
    // Waits for more than n_seen tokens or the end; false when there is neither in time.
    bool wait(size_t n_seen, double timeout_ms);
    // What was drawn, from the token of this index on; with none, what made the request fail is thrown.
    std::vector<DrawnToken> tokens_from(size_t first) const;
    CompletionReport report() const;
    // Returns at once; tokens may still come. Does nothing in a fork.
    void cancel();

    // --- the engine's thread
    const CompletionParams & params() const { return params_; }
    Sampler & sampler() { return sampler_; }
    bool is_cancelled() const;
    // The fields that are not about its end.
    template <typename Change>
    void update(const Change & change) {
        const std::lock_guard lock(mutex_);
        change(report_);
    }
    void add(DrawnToken token);
    void end(Ending ending, std::exception_ptr error = nullptr);
    // After it has ended.
    AnswerRecord answer() const;
    // Consumers look again: after the two above.
    void wake() { changed_.notify_all(); }

   private:
    // A fork has no engine's thread, which may have held mutex_ when it was made.
    bool is_in_fork() const;
    void refuse_fork() const;

    const CompletionParams params_;
    const std::shared_ptr<Mailbox> mailbox_;
    const pid_t process_;
    Sampler sampler_;  // the engine's thread alone

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<DrawnToken> tokens_;
    CompletionReport report_;
    std::exception_ptr error_;
    bool cancelled_ = false;
};

}  // namespace orin
