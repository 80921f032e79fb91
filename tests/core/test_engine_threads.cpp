// An engine over a model without weights, with consumers on many threads that submit, take, cancel, wait and ask for
// statistics at random: every completion is a beginning of what it would be alone, and nothing is left at the end. Each
// test with one step under way at a time, and with two.
#include <algorithm>
#include <thread>
#include <vector>

#include "engine/runner.h"
#include "fake_engine.h"

namespace orin {
namespace {

constexpr int32_t n_consumers = 4;

struct Running {
    std::shared_ptr<Completion> completion;
    std::vector<int32_t> known;  // the prompt, then what was taken
    int32_t n_taken = 0;
    bool is_cancelled = false;
};

class Consumer {
   public:
    Consumer(Runner & runner, uint64_t seed)
        : runner_(runner), random_(seed), model_(n_pages + 1, page_size, 0, n_vocab) {}

    void run(int64_t n) {
        for (int64_t i = 0; i < n; i++) {
            act();
        }
        for (Running & running : running_) {
            while (running.completion->report().ending == Ending::none) {
                running.completion->wait(static_cast<size_t>(running.n_taken), 5.0);
                take(running);
            }
            take(running);
            check_end(running);
        }
    }

   private:
    void act() {
        const int32_t choice = random_.below(10);
        if (choice < 3) {
            submit();
        } else if (choice == 3) {
            CHECK(runner_.stats().running <= max_batch);
        } else if (choice == 4) {
            runner_.between_steps([] {});
        } else if (!running_.empty()) {
            const auto i = random_.below(static_cast<int32_t>(running_.size()));
            Running & running = running_[static_cast<size_t>(i)];
            if (choice == 5) {
                running.is_cancelled = true;
                running.completion->cancel();
            } else if (choice == 6 && running.completion->report().ending != Ending::none) {
                take(running);
                check_end(running);
                running_.erase(running_.begin() + i);
            } else if (choice == 7) {
                running.completion->cancel();
                running_.erase(running_.begin() + i);  // nobody looks at it any more
            } else {
                running.completion->wait(static_cast<size_t>(running.n_taken), 0.2);
                take(running);
            }
        }
    }

    void submit() {
        if (running_.size() > 12) {
            return;
        }
        CompletionParams params;
        params.prompt.assign(static_cast<size_t>(1 + random_.below(60)), 1 + random_.below(3));
        params.max_tokens = 1 + random_.below(n_ctx - static_cast<int32_t>(params.prompt.size()));
        params.priority = random_.below(2);
        params.n_logprobs = random_.below(3) - 1;
        params.timeout_ms = random_.one_in(5) ? 1.0 + random_.below(10) : 0.0;
        Running running;
        running.known = params.prompt;
        running.completion = runner_.submit(params, Sampler(greedy, 0, {}));
        running_.push_back(std::move(running));
    }

    void take(Running & running) {
        std::vector<DrawnToken> tokens;
        try {
            tokens = running.completion->tokens_from(static_cast<size_t>(running.n_taken));
        } catch (const std::exception &) {
            CHECK(running.completion->report().ending == Ending::failed);
        }
        for (const DrawnToken & token : tokens) {
            CHECK(token.token == model_.next(running.known));
            CHECK(token.logprobs.size() ==
                  static_cast<size_t>(std::max(running.completion->params().n_logprobs + 1, 0)));
            running.known.push_back(token.token);
            running.n_taken++;
        }
    }

    void check_end(const Running & running) {
        const CompletionReport report = running.completion->report();
        const int32_t max_tokens = running.completion->params().max_tokens;
        const bool said_end = running.n_taken > 0 && running.known.back() == 0;
        switch (report.ending) {
            case Ending::stop:
                CHECK(said_end);
                break;
            case Ending::length:
                CHECK(running.n_taken == max_tokens && !said_end);
                break;
            case Ending::cancelled:
                CHECK(running.is_cancelled);
                break;
            case Ending::deadline:
                CHECK(running.completion->params().timeout_ms > 0.0);
                break;
            case Ending::failed:
            case Ending::none:
                break;
        }
    }

    Runner & runner_;
    Random random_;
    const FakeModel model_;  // for what follows a text
    std::vector<Running> running_;
};

void check_nothing_is_left(Runner & runner) {
    while (runner.stats().running + runner.stats().waiting > 0) {
        std::this_thread::yield();
    }
    const EngineStats stats = runner.stats();
    CHECK(stats.pages.used == 0);
    CHECK(stats.scheduler.submitted == stats.scheduler.finished + stats.scheduler.cancelled + stats.scheduler.expired);
    CHECK(stats.scheduler.preempted > 0 && stats.scheduler.expired > 0 && stats.failed > 0);
    CHECK(!runner.steps_after(0).empty());
}

template <typename SomeComputer>
void storm(int64_t n) {
    Runner runner(fake<SomeComputer>());
    std::vector<std::thread> threads;
    for (uint64_t seed = 0; seed < n_consumers; seed++) {
        threads.emplace_back([&runner, seed, n] { Consumer(runner, seed).run(n); });
    }
    for (std::thread & thread : threads) {
        thread.join();
    }
    check_nothing_is_left(runner);
}

std::vector<std::shared_ptr<Completion>> submit_twenty(Runner & runner) {
    std::vector<std::shared_ptr<Completion>> completions;
    CompletionParams params;
    params.prompt.assign(30, 1);
    params.max_tokens = 60;
    params.ignore_eos = true;
    for (int32_t i = 0; i < 20; i++) {
        completions.push_back(runner.submit(params, Sampler(greedy, 0, {})));
    }
    return completions;
}

template <typename SomeComputer>
void cancelling() {
    Runner runner(fake<SomeComputer>(1 << 30));
    const auto completions = submit_twenty(runner);
    for (const auto & completion : completions) {
        completion->cancel();
    }
    for (const auto & completion : completions) {
        CHECK(completion->wait(60, 10'000.0));
    }
    CHECK(runner.stats().scheduler.cancelled > 10 && runner.stats().pages.used == 0);
}

template <typename SomeComputer>
void failing_steps() {
    Runner runner(fake<SomeComputer>(1));
    const auto completions = submit_twenty(runner);
    for (const auto & completion : completions) {
        CHECK(completion->wait(0, 10'000.0));
        CHECK(completion->report().ending == Ending::failed);
    }
    CHECK(runner.stats().failed == 20 && runner.stats().pages.used == 0);
}

// Its thread is gone then, and with it all that waited for it.
void failing_engine() {
    Runner runner(fake<FakeComputer>(2));
    try {
        for (const auto & completion : submit_twenty(runner)) {
            CHECK(completion->wait(60, 10'000.0));
        }
        runner.between_steps([] {});
        CHECK(false);
    } catch (const EngineError &) {
    }
    CHECK(runner.stats().running == 0 && runner.stats().waiting == 0);
}

// What runs and waits fails, and who comes later is told.
template <typename SomeComputer>
void close_under_load() {
    for (int32_t round = 0; round < 20; round++) {
        Runner runner(fake<SomeComputer>());
        const auto completions = submit_twenty(runner);
        std::thread closer([&] { runner.close(); });
        runner.close();
        closer.join();
        for (const auto & completion : completions) {
            CHECK(completion->report().ending != Ending::none);
        }
        CHECK(runner.stats().running == 0 && runner.stats().waiting == 0);
        try {
            submit_twenty(runner);
            CHECK(false);
        } catch (const EngineError &) {
        }
    }
}

void commands_see_no_step_under_way() {
    LateComputer * computer = nullptr;
    Runner runner([&computer](const StopCheck & stop) {
        auto stepper = std::make_unique<FakeStepper<LateComputer>>(stop, 1 << 30);
        computer = &stepper->computer();
        return stepper;
    });
    const auto completions = submit_twenty(runner);
    for (int32_t i = 0; i < 100; i++) {
        runner.between_steps([&computer] { CHECK(computer->n_under_way() == 0); });
    }
}

template <typename SomeComputer>
void all(int64_t n) {
    storm<SomeComputer>(n);
    cancelling<SomeComputer>();
    failing_steps<SomeComputer>();
    close_under_load<SomeComputer>();
}

}  // namespace
}  // namespace orin

int main(int argc, char ** argv) {
    const int64_t n = orin::operations(argc, argv, 20'000) / 2;
    orin::all<orin::FakeComputer>(n);
    orin::all<orin::LateComputer>(n);
    orin::failing_engine();
    orin::commands_see_no_step_under_way();
}
