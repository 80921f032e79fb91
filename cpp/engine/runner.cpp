#include "runner.h"

#include <pthread.h>
#include <sched.h>

#include <future>
#include <string>
#include <system_error>
#include <utility>

#include "runtime.h"

namespace orin {

namespace {

// What a thread starts later runs on the same cores.
void keep_on(std::thread & thread, const std::vector<int32_t> & cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int32_t cpu : cpus) {
        CPU_SET(static_cast<size_t>(cpu), &set);
    }
    const int status = pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
    if (status != 0) {
        throw EngineError("the engine's threads cannot be kept on the cores asked for (--cpus): " +
                          std::generic_category().message(status));
    }
}

}  // namespace

Runner::Runner(const MakeStepper & make_stepper, const std::vector<int32_t> & cpus)
    : mailbox_(std::make_shared<Mailbox>()), core_(make_stepper, mailbox_) {
    thread_ = std::thread([this] { run(); });
    try {
        if (!cpus.empty()) {
            keep_on(thread_, cpus);
        }
    } catch (...) {
        close();
        throw;
    }
}

void Runner::close() {
    const std::lock_guard lock(closing_mutex_);
    if (!thread_.joinable()) {
        return;
    }
    mailbox_->close();
    thread_.join();
}

std::shared_ptr<Completion> Runner::submit(CompletionParams params, Sampler sampler) {
    const int32_t n_vocab = core_.stepper().n_vocab();
    for (const int32_t token : params.prompt) {
        if (token < 0 || token >= n_vocab) {
            throw EngineError("token id " + std::to_string(token) + " is outside the vocabulary of " +
                              std::to_string(n_vocab) + " tokens");
        }
    }
    sampling::check(sampler.row(nullptr, n_vocab, 0), n_vocab);
    auto completion = std::make_shared<Completion>(std::move(params), std::move(sampler), mailbox_);
    if (!mailbox_->submit(completion)) {
        throw EngineError("this engine is closed: make a new one");
    }
    return completion;
}

void Runner::between_steps(const std::function<void()> & work) {
    const auto done = std::make_shared<std::promise<void>>();  // the engine's thread may leave it after this one
    std::future<void> result = done->get_future();
    const bool taken = mailbox_->command([this, &work, done] {
        try {
            core_.settle();
            work();
            core_.refresh();
            done->set_value();
        } catch (...) {
            core_.refresh();
            done->set_exception(std::current_exception());
        }
    });
    if (!taken) {
        throw EngineError("this engine is closed: make a new one");
    }
    result.get();
}

void Runner::run() {
    std::string reason = "the engine was closed before this completion was done";
    try {
        take_steps();
    } catch (const std::exception & error) {
        reason = std::string("the engine's thread failed: ") + error.what() + ". Make a new engine.";
        mailbox_->close();
    }
    read_mail(false);
    core_.fail_all(reason);
}

void Runner::take_steps() {
    while (true) {
        const bool is_idle = core_.is_idle();
        if (is_idle) {
            core_.trim();
        }
        read_mail(is_idle);
        if (mailbox_->is_closing()) {
            return;
        }
        core_.step();
    }
}

void Runner::read_mail(bool wait) {
    Mail mail = mailbox_->take(wait);
    for (std::shared_ptr<Completion> & completion : mail.submitted) {
        core_.admit(std::move(completion));
    }
    if (mail.has_cancelled) {
        core_.drop_cancelled();
    }
    for (const auto & command : mail.commands) {
        command();
    }
}

}  // namespace orin
