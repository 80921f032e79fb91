// Engines over a model without weights, short of pages.
#pragma once

#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "engine/core.h"
#include "engine/logits_computer.h"
#include "engine/runtime.h"
#include "late_model.h"

namespace orin {

constexpr int32_t n_vocab = 50;
constexpr int32_t n_ctx = 96;
constexpr int32_t page_size = 8;
constexpr int32_t n_pages = 16;  // a little more than one sequence in full: there is preemption
constexpr int32_t max_batch = 4;
inline const sampling::Params greedy = {0.0f, 0, 1.0f, 0.0f, 1.0f, 0.0f, 0.0f, sampling::Order::orin, 0};

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
    bool wants_trim() const override { return true; }
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

enum class Fate { fine, start_fails, collect_fails, bad_logits };

// The same as a device: two steps may be under way, and drawn tokens are fed there.
class LateComputer : public Computer {
   public:
    LateComputer(PagedKv & kv, const StopCheck & stop, int32_t one_fails_in)
        : kv_(kv),
          stop_(stop),
          one_fails_in_(one_fails_in),
          model_(n_pages + 1, page_size, 0, n_vocab),
          device_(model_),
          random_(8) {}
    ~LateComputer() override { CHECK(under_way_.empty()); }

    void start(const StepBatch & batch, const std::vector<OutputDraw> & draws) override {
        CHECK(under_way_.size() < 2 && draws.size() == batch.outputs.size());
        if (kv_.committed_pages() > n_pages_with_memory + 1) {
            trace += 'm';
            throw KvFull("the memory is full", n_pages_with_memory);
        }
        const Fate fate = next_fate();
        const bool fails = fate == Fate::start_fails || fate == Fate::collect_fails;
        const auto n_some = static_cast<size_t>(random_.below(static_cast<int32_t>(batch.rows.size())));
        device_.start(kv_, batch, fails ? n_some : batch.rows.size(), fate == Fate::start_fails);
        trace += fate == Fate::start_fails ? 'x' : 's';
        if (fate == Fate::start_fails) {
            throw EngineError("a step failed");
        }
        under_way_.push_back({draws, fate});
    }

    std::vector<DrawnOutput> & collect() override {
        std::this_thread::sleep_for(std::chrono::microseconds(random_.below(30)));
        if (before_collect) {
            before_collect();
        }
        const Started step = std::move(under_way_.front());
        under_way_.pop_front();
        trace += 'c';
        const std::vector<int32_t> tokens = device_.collect();
        if (step.fate == Fate::collect_fails) {
            throw EngineError("a step failed");
        }
        if (stop_.stops(stop_.data)) {
            throw Interrupted("stopped");
        }
        drawn_.clear();
        for (size_t i = 0; i < tokens.size(); i++) {
            CHECK(step.draws[i].sampler->params().temperature == 0.0f);  // it is still there
            const bool is_bad = i == 0 && step.fate == Fate::bad_logits;
            const auto n_logprobs = static_cast<size_t>(is_bad ? 0 : step.draws[i].n_logprobs + 1);
            drawn_.push_back(
                {is_bad ? sampling::bad_logits : tokens[i], std::vector<sampling::TokenLogprob>(n_logprobs), nullptr});
        }
        return drawn_;
    }

    int32_t max_steps_under_way() const override { return 2; }
    KvUse kv_use() const override { return {1, 0}; }
    void forget() override {
        CHECK(under_way_.empty());
        trace += 'f';
        kv_.drop_cached();
    }
    bool wants_trim() const override { return wants_trim_; }
    void trim() override {
        CHECK(under_way_.empty());
        trace += 't';
    }

    size_t n_under_way() const { return under_way_.size(); }
    int64_t n_steps() const { return n_steps_; }  // whose fate is known

    std::string trace;              // a letter for every call
    std::map<int64_t, Fate> fates;  // of steps by number, from 0; where none is given, it is random
    bool wants_trim_ = false;
    int32_t n_pages_with_memory = n_pages;
    std::function<void()> before_collect;

   private:
    struct Started {
        std::vector<OutputDraw> draws;
        Fate fate;
    };

    Fate next_fate() {
        const auto given = fates.find(n_steps_++);
        if (given != fates.end()) {
            return given->second;
        }
        return random_.one_in(one_fails_in_) ? static_cast<Fate>(1 + random_.below(3)) : Fate::fine;
    }

    PagedKv & kv_;
    const StopCheck stop_;
    const int32_t one_fails_in_;  // steps
    FakeModel model_;
    LateModel device_;
    Random random_;
    int64_t n_steps_ = 0;
    std::deque<Started> under_way_;
    std::vector<DrawnOutput> drawn_;
};

inline PlannerConfig planner_config() {
    PlannerConfig config;
    config.chunk_size = 16;
    config.max_batch = max_batch;
    return config;
}

inline PagedKvConfig kv_config() {
    PagedKvConfig config;
    config.n_pages = n_pages + 1;
    config.page_size = page_size;
    config.max_sequences = max_batch + 1;
    config.max_tokens = n_ctx;
    return config;
}

template <typename SomeComputer>
class FakeStepper : public Stepper {
   public:
    FakeStepper(const StopCheck & stop, int32_t one_fails_in)
        : scheduler_(planner_config(), kv_config()), computer_(scheduler_.kv(), stop, one_fails_in) {}

    Scheduler & scheduler() override { return scheduler_; }
    SomeComputer & computer() override { return computer_; }
    int32_t n_vocab() const override { return orin::n_vocab; }
    std::vector<int32_t> end_tokens() const override { return {0}; }

   private:
    Scheduler scheduler_;
    SomeComputer computer_;
};

// Of so many steps, one fails.
template <typename SomeComputer>
MakeStepper fake(int32_t one_fails_in = 40) {
    return [one_fails_in](const StopCheck & stop) {
        return std::make_unique<FakeStepper<SomeComputer>>(stop, one_fails_in);
    };
}

}  // namespace orin
