#include "completion.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "clock.h"
#include "mailbox.h"
#include "runtime.h"

namespace orin {

Completion::Completion(CompletionParams params, Sampler sampler, std::shared_ptr<Mailbox> mailbox)
    : params_(std::move(params)), mailbox_(std::move(mailbox)), process_(getpid()), sampler_(std::move(sampler)) {
    report_.submitted_ms = now_ms();
}

bool Completion::is_in_fork() const {
    return getpid() != process_;
}

void Completion::refuse_fork() const {
    if (is_in_fork()) {
        throw EngineError("this completion belongs to the process that started it: a fork cannot take its tokens");
    }
}

bool Completion::wait(size_t n_seen, double timeout_ms) {
    refuse_fork();
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double, std::milli>(timeout_ms),
                             [&] { return tokens_.size() > n_seen || report_.ending != Ending::none; });
}

std::vector<DrawnToken> Completion::tokens_from(size_t first) const {
    refuse_fork();
    const std::lock_guard lock(mutex_);
    if (first < tokens_.size()) {
        return std::vector<DrawnToken>(tokens_.begin() + static_cast<ptrdiff_t>(first), tokens_.end());
    }
    if (error_) {
        std::rethrow_exception(error_);
    }
    return {};
}

CompletionReport Completion::report() const {
    refuse_fork();
    const std::lock_guard lock(mutex_);
    return report_;
}

void Completion::cancel() {
    if (is_in_fork()) {
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        if (cancelled_ || report_.ending != Ending::none) {
            return;
        }
        cancelled_ = true;
    }
    mailbox_->note_cancelled();
}

bool Completion::is_cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
}

void Completion::add(DrawnToken token) {
    const std::lock_guard lock(mutex_);
    tokens_.push_back(std::move(token));
}

void Completion::end(Ending ending, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    report_.ended_ms = now_ms();
    report_.ending = ending;
    error_ = std::move(error);
}

AnswerRecord Completion::answer() const {
    const std::lock_guard lock(mutex_);
    AnswerRecord result{};
    result.ended_ms = report_.ended_ms;
    result.n_prompt_tokens = static_cast<int64_t>(params_.prompt.size());
    result.n_tokens = static_cast<int64_t>(tokens_.size());
    if (!tokens_.empty()) {
        result.ttft_ms = tokens_.front().time_ms - report_.submitted_ms;
    }
    if (tokens_.size() > 1) {
        result.tpot_ms = (tokens_.back().time_ms - tokens_.front().time_ms) / static_cast<double>(tokens_.size() - 1);
    }
    return result;
}

}  // namespace orin
