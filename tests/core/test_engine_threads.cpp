// An engine over a model without weights, with consumers on many threads that submit, take, cancel, wait and ask for
// statistics at random: every completion is a beginning of what it would be alone, and nothing is left at the end.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "check.h"
#include "engine/logits_computer.h"
#include "engine/runner.h"
#include "engine/runtime.h"
#include "fake_model.h"

namespace orin {
namespace {

constexpr int32_t n_vocab = 50;
constexpr int32_t n_ctx = 96;
constexpr int32_t page_size = 8;
constexpr int32_t n_pages = 16;  // a little more than one sequence in full: there is preemption
constexpr int32_t max_batch = 4;
constexpr int32_t n_consumers = 4;
const sampling::Params greedy = {0.0f, 0, 1.0f, 0.0f, 1.0f, 0.0f, 0.0f, sampling::Order::orin, 0};

// Some steps fail, stop when they are told to, or give logits that are no numbers.
class FakeComputer : public LogitsComputer {
   public:
    FakeComputer(PagedKv & kv, const StopCheck & stop, int32_t one_fails_in)
        : LogitsComputer(n_vocab),
          kv_(kv),
          stop_(stop),
          one_fails_in_(one_fails_in),
          model_(n_pages + 1, page_size, 0, n_vocab),
          random_(7) {}

    void compute(const StepBatch & batch) override {
        if (random_.one_in(one_fails_in_)) {
            model_.compute(batch, static_cast<size_t>(random_.below(static_cast<int32_t>(batch.rows.size()))));
            throw EngineError("a step failed");
        }
        model_.compute(batch, batch.rows.size());
        std::this_thread::sleep_for(std::chrono::microseconds(random_.below(30)));
        if (stop_.stops(stop_.data)) {
            throw Interrupted("stopped");
        }
        logits_.assign(batch.outputs.size() * n_vocab, 0.0f);
        for (size_t i = 0; i < batch.outputs.size(); i++) {
            const int32_t token = model_.sample(kv_, batch.rows[static_cast<size_t>(batch.outputs[i].row)]);
            logits_[i * n_vocab + static_cast<size_t>(token)] = random_.one_in(400) ? NAN : 1.0f;
        }
    }
    const float * logits(size_t output) const override { return logits_.data() + output * n_vocab; }
    void forget() override { kv_.drop_cached(); }
    void trim() override {
        if (one_fails_in_ == 2) {
            throw std::runtime_error("the system has no memory");
        }
    }

   private:
    PagedKv & kv_;
    const StopCheck stop_;
    const int32_t one_fails_in_;  // steps
    FakeModel model_;
    Random random_;
    std::vector<float> logits_;
};

PlannerConfig planner_config() {
    PlannerConfig config;
    config.chunk_size = 16;
    config.max_batch = max_batch;
    return config;
}

PagedKvConfig kv_config() {
    PagedKvConfig config;
    config.n_pages = n_pages + 1;
    config.page_size = page_size;
    config.max_sequences = max_batch + 1;
    config.max_tokens = n_ctx;
    return config;
}

class FakeStepper : public Stepper {
   public:
    explicit FakeStepper(const StopCheck & stop, int32_t one_fails_in = 40)
        : scheduler_(planner_config(), kv_config()), computer_(scheduler_.kv(), stop, one_fails_in) {}

    Scheduler & scheduler() override { return scheduler_; }
    Computer & computer() override { return computer_; }
    int32_t n_vocab() const override { return orin::n_vocab; }
    std::vector<int32_t> end_tokens() const override { return {0}; }

   private:
    Scheduler scheduler_;
    FakeComputer computer_;
};

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

std::unique_ptr<Stepper> make_fake(const StopCheck & stop) {
    return std::make_unique<FakeStepper>(stop);
}

void storm(int64_t n) {
    Runner runner(make_fake);
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

void cancelling() {
    Runner runner([](const StopCheck & stop) { return std::make_unique<FakeStepper>(stop, 1 << 30); });
    const auto completions = submit_twenty(runner);
    for (const auto & completion : completions) {
        completion->cancel();
    }
    for (const auto & completion : completions) {
        CHECK(completion->wait(60, 10'000.0));
    }
    CHECK(runner.stats().scheduler.cancelled > 10 && runner.stats().pages.used == 0);
}

void failing_steps() {
    Runner runner([](const StopCheck & stop) { return std::make_unique<FakeStepper>(stop, 1); });
    const auto completions = submit_twenty(runner);
    for (const auto & completion : completions) {
        CHECK(completion->wait(0, 10'000.0));
        CHECK(completion->report().ending == Ending::failed);
    }
    CHECK(runner.stats().failed == 20 && runner.stats().pages.used == 0);
}

// Its thread is gone then, and with it all that waited for it.
void failing_engine() {
    Runner runner([](const StopCheck & stop) { return std::make_unique<FakeStepper>(stop, 2); });
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
void close_under_load() {
    for (int32_t round = 0; round < 20; round++) {
        Runner runner(make_fake);
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

}  // namespace
}  // namespace orin

int main(int argc, char ** argv) {
    orin::storm(orin::operations(argc, argv, 20'000));
    orin::cancelling();
    orin::failing_steps();
    orin::failing_engine();
    orin::close_under_load();
}
