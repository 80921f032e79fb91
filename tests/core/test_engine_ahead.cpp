// Steps that are started before the one before is collected: what is started when, and what becomes of the step under
// way when something ends or fails.
#include <memory>
#include <string>
#include <vector>

#include "fake_engine.h"

namespace orin {
namespace {

constexpr int32_t never = 1 << 30;

// A core on this thread, and its computer.
struct Engine {
    std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();
    LateComputer * computer = nullptr;
    std::unique_ptr<Core> core;

    Engine() {
        core = std::make_unique<Core>(
            [this](const StopCheck & stop) {
                auto stepper = std::make_unique<FakeStepper<LateComputer>>(stop, never);
                computer = &stepper->computer();
                return stepper;
            },
            mailbox);
    }

    std::shared_ptr<Completion> submit(std::vector<int32_t> prompt, int32_t max_tokens, bool ignore_eos = true) {
        CompletionParams params;
        params.prompt = std::move(prompt);
        params.max_tokens = max_tokens;
        params.ignore_eos = ignore_eos;
        auto completion = std::make_shared<Completion>(params, Sampler(greedy, 0, {}), mailbox);
        core->admit(completion);
        return completion;
    }

    void run() {
        while (!core->is_idle()) {
            core->step();
        }
        CHECK(core->ledger().stats().pages.used == 0);
        core->stepper().scheduler().kv().check();
    }
};

// What the model says after this prompt.
std::vector<int32_t> expected(std::vector<int32_t> prompt, int32_t n) {
    const FakeModel model(n_pages + 1, page_size, 0, n_vocab);
    const size_t n_prompt = prompt.size();
    while (n-- > 0) {
        prompt.push_back(model.next(prompt));
    }
    return {prompt.begin() + static_cast<ptrdiff_t>(n_prompt), prompt.end()};
}

std::vector<int32_t> text(const Completion & completion) {
    std::vector<int32_t> tokens;
    for (const DrawnToken & drawn : completion.tokens_from(0)) {
        tokens.push_back(drawn.token);
    }
    return tokens;
}

// A prompt whose answer ends with the second token.
std::vector<int32_t> prompt_of_two() {
    for (int32_t a = 1;; a++) {
        const std::vector<int32_t> answer = expected({a}, 2);
        if (answer[0] != 0 && answer[1] == 0) {
            return {a};
        }
    }
}

void the_next_step_is_started_before_the_one_before_is_collected() {
    Engine engine;
    const auto completion = engine.submit({1, 2, 3}, 4);
    engine.run();
    CHECK(engine.computer->trace == "sscscscc");  // none is started for a fifth token
    CHECK(text(*completion) == expected({1, 2, 3}, 4));
    CHECK(completion->report().ending == Ending::length);
    CHECK(engine.core->ledger().stats().scheduler.tokens_decoded == 3);
}

void what_follows_the_end_is_computed_in_vain_and_never_seen() {
    Engine engine;
    const auto completion = engine.submit(prompt_of_two(), 20, false);
    engine.run();
    CHECK(engine.computer->trace == "sscscc");
    CHECK(text(*completion) == expected(prompt_of_two(), 2));
    CHECK(completion->report().ending == Ending::stop);
    CHECK(engine.core->ledger().stats().scheduler.tokens_decoded == 1);
}

void who_is_cancelled_ends_at_once_and_the_others_go_on() {
    Engine engine;
    const auto cancelled = engine.submit({1}, 20);
    const auto other = engine.submit({2}, 20);
    engine.core->step();
    CHECK(engine.computer->n_under_way() == 1);
    cancelled->cancel();
    engine.core->drop_cancelled();
    CHECK(cancelled->report().ending == Ending::cancelled && text(*cancelled).size() == 1);
    engine.run();
    CHECK(text(*cancelled).size() == 1 && text(*other) == expected({2}, 20));
}

void a_step_that_fails_when_it_starts_leaves_the_one_under_way_alone() {
    Engine engine;
    engine.computer->fates[2] = Fate::start_fails;
    const auto failing = engine.submit({1}, 20);
    engine.core->step();
    const auto other = engine.submit(std::vector<int32_t>(40, 2), 3);  // its tokens are not in the step under way
    engine.core->step();
    CHECK(engine.computer->trace == "sscxc");
    CHECK(failing->report().ending == Ending::failed && other->report().ending == Ending::failed);
    const auto next = engine.submit({1}, 20);
    engine.run();
    CHECK(text(*next) == expected({1}, 20));
}

void a_step_that_fails_takes_the_one_started_after_it_along_and_only_its_own_requests() {
    Engine engine;
    engine.computer->fates[1] = Fate::collect_fails;
    const auto failing = engine.submit({1}, 20);
    engine.core->step();
    const auto other = engine.submit(std::vector<int32_t>(40, 2), 3);
    engine.core->step();  // starts the first chunk of the other
    CHECK(engine.computer->trace == "sscscc");
    CHECK(failing->report().ending == Ending::failed && text(*failing).size() == 1);
    CHECK(other->report().ending == Ending::none);
    engine.run();
    CHECK(text(*other) == expected(std::vector<int32_t>(40, 2), 3));
    CHECK(engine.core->ledger().stats().scheduler.failed_steps == 2);
}

// 8 of the pages have memory; each of these answers needs 7.
void without_memory_requests_give_way_and_nothing_is_lost() {
    Engine engine;
    engine.computer->n_pages_with_memory = 8;
    std::vector<std::shared_ptr<Completion>> completions;
    for (int32_t i = 1; i <= 3; i++) {
        completions.push_back(engine.submit(std::vector<int32_t>(20, i), 35));
    }
    engine.run();
    CHECK(engine.computer->trace.find("cmc") != std::string::npos);  // while a step was under way
    for (int32_t i = 1; i <= 3; i++) {
        CHECK(text(*completions[static_cast<size_t>(i - 1)]) == expected(std::vector<int32_t>(20, i), 35));
    }
    const EngineStats stats = engine.core->ledger().stats();
    CHECK(stats.scheduler.preempted > 0 && stats.failed == 0);
    CHECK(stats.pages.cached + stats.pages.free == n_pages);
}

void without_memory_cached_pages_go_first() {
    Engine engine;
    engine.submit(std::vector<int32_t>(60, 1), 2);
    engine.run();
    engine.computer->n_pages_with_memory = 8;
    const auto other = engine.submit(std::vector<int32_t>(60, 2), 2);
    engine.run();
    CHECK(text(*other) == expected(std::vector<int32_t>(60, 2), 2));
    const EngineStats stats = engine.core->ledger().stats();
    CHECK(engine.computer->trace.find('m') != std::string::npos && stats.pages.evictions > 0);
    CHECK(stats.scheduler.preempted == 0 && stats.failed == 0);
}

void who_does_not_fit_into_the_memory_alone_ends_alone() {
    Engine engine;
    engine.computer->n_pages_with_memory = 8;
    const auto large = engine.submit(std::vector<int32_t>(20, 1), 60);
    const auto small = engine.submit(std::vector<int32_t>(20, 2), 30);
    const auto prompt = engine.submit(std::vector<int32_t>(80, 3), 4);
    engine.run();
    // of the first, 8 pages are full, and the last token is in none
    for (const auto & [ended, n] : {std::pair(large, size_t{8 * page_size - 20 + 1}), std::pair(prompt, size_t{0})}) {
        CHECK(ended->report().ending == Ending::failed);
        std::string reason;
        try {
            ended->tokens_from(n);
        } catch (const EngineError & error) {
            reason = error.what();
        }
        CHECK(reason == "the memory is full");
    }
    CHECK(text(*small) == expected(std::vector<int32_t>(20, 2), 30));
    engine.computer->n_pages_with_memory = n_pages;
    const auto again = engine.submit(std::vector<int32_t>(20, 1), 60);
    engine.run();
    CHECK(text(*again) == expected(std::vector<int32_t>(20, 1), 60));
}

void what_is_no_number_is_forgotten_once_no_step_is_under_way() {
    Engine engine;
    engine.computer->fates[1] = Fate::bad_logits;
    const auto failing = engine.submit(std::vector<int32_t>(8, 1), 20);
    const auto other = engine.submit({2}, 20);
    engine.core->step();
    engine.core->step();
    CHECK(engine.computer->trace == "sscsccf");
    CHECK(failing->report().ending == Ending::failed && text(*failing).size() == 1);
    CHECK(text(*other).size() == 3);
    CHECK(engine.core->ledger().stats().pages.cached == 0);
    engine.run();
    CHECK(text(*other) == expected({2}, 20));
}

void memory_is_given_back_while_no_step_is_under_way() {
    Engine engine;
    engine.computer->wants_trim_ = true;
    engine.submit({1}, 1);
    const auto other = engine.submit({2}, 20);
    engine.core->step();
    CHECK(engine.computer->trace == "sscct");
    engine.run();
    CHECK(text(*other) == expected({2}, 20));
}

void settling_hands_out_what_is_under_way() {
    Engine engine;
    const auto completion = engine.submit({1}, 20);
    engine.core->step();
    CHECK(text(*completion).size() == 1 && engine.computer->n_under_way() == 1 && !engine.core->is_idle());
    engine.core->settle();
    CHECK(text(*completion).size() == 2 && engine.computer->n_under_way() == 0);
    engine.run();
    CHECK(text(*completion) == expected({1}, 20));
}

void what_is_under_way_when_the_engine_closes_is_waited_for() {
    Engine engine;
    const auto completion = engine.submit({1}, 20);
    engine.core->step();
    engine.core->fail_all("closed");
    CHECK(engine.computer->n_under_way() == 0 && completion->report().ending == Ending::failed);
}

void who_begins_is_in_the_statistics_while_the_first_step_is_under_way() {
    Engine engine;
    const auto completion = engine.submit({1}, 3);
    EngineStats first{};
    engine.computer->before_collect = [&] {
        if (first.running == 0) {
            first = engine.core->ledger().stats();
        }
    };
    engine.core->step();
    CHECK(first.running == 1 && first.scheduler.submitted == 1 && first.scheduler.steps == 0);
    engine.run();
}

void steps_in_the_log_do_not_overlap() {
    Engine engine;
    engine.submit({1}, 20);
    engine.run();
    const std::vector<StepRecord> steps = engine.core->ledger().steps_after(0);
    CHECK(steps.size() == 20);
    for (size_t i = 1; i < steps.size(); i++) {
        CHECK(steps[i].duration_ms > 0.0);
        CHECK(steps[i].started_ms + 1e-6 >= steps[i - 1].started_ms + steps[i - 1].duration_ms);
    }
}

// Of all steps in the log, what they counted.
StepRecord total(const Engine & engine) {
    StepRecord sum{};
    for (const StepRecord & step : engine.core->ledger().steps_after(0)) {
        sum.kv_lookups += step.kv_lookups;
        sum.kv_misses += step.kv_misses;
        sum.kv_evictions += step.kv_evictions;
        sum.preemptions += step.preemptions;
        CHECK(step.publish_ms > 0.0 && step.publish_ms <= step.duration_ms);
    }
    return sum;
}

void what_the_steps_count_adds_up_to_what_the_engine_counts() {
    Engine engine;
    engine.submit(std::vector<int32_t>(60, 9), 2);
    engine.run();
    engine.computer->n_pages_with_memory = 8;
    for (int32_t i = 1; i <= 3; i++) {
        engine.submit(std::vector<int32_t>(20, i), 35);
    }
    engine.run();
    const StepRecord sum = total(engine);
    const EngineStats stats = engine.core->ledger().stats();
    CHECK(engine.computer->trace.find('m') != std::string::npos);
    CHECK(sum.preemptions == stats.scheduler.preempted && sum.preemptions > 0);
    CHECK(sum.kv_evictions == stats.pages.evictions && sum.kv_evictions > 0);
    CHECK(sum.kv_lookups == stats.pages.lookups && sum.kv_misses == stats.pages.misses && sum.kv_misses > 0);
}

void what_was_given_up_for_a_step_that_could_not_be_started_is_counted_with_the_next() {
    Engine engine;
    for (int32_t i = 1; i <= 2; i++) {
        engine.submit(std::vector<int32_t>(60, i), 2);
        engine.run();
    }
    CHECK(engine.core->ledger().stats().pages.evictions == 0);
    engine.computer->fates[engine.computer->n_steps() + 2] = Fate::start_fails;
    engine.submit(std::vector<int32_t>(60, 3), 2);
    engine.run();
    const int64_t n_given_up = engine.core->stepper().scheduler().kv().counters().evictions;
    CHECK(total(engine).kv_evictions < n_given_up);
    engine.submit({4}, 2);
    engine.run();
    CHECK(total(engine).kv_evictions == n_given_up);
}

}  // namespace
}  // namespace orin

int main() {
    using namespace orin;
    the_next_step_is_started_before_the_one_before_is_collected();
    what_follows_the_end_is_computed_in_vain_and_never_seen();
    who_is_cancelled_ends_at_once_and_the_others_go_on();
    a_step_that_fails_when_it_starts_leaves_the_one_under_way_alone();
    a_step_that_fails_takes_the_one_started_after_it_along_and_only_its_own_requests();
    without_memory_requests_give_way_and_nothing_is_lost();
    without_memory_cached_pages_go_first();
    who_does_not_fit_into_the_memory_alone_ends_alone();
    what_is_no_number_is_forgotten_once_no_step_is_under_way();
    memory_is_given_back_while_no_step_is_under_way();
    settling_hands_out_what_is_under_way();
    what_is_under_way_when_the_engine_closes_is_waited_for();
    who_begins_is_in_the_statistics_while_the_first_step_is_under_way();
    steps_in_the_log_do_not_overlap();
    what_the_steps_count_adds_up_to_what_the_engine_counts();
    what_was_given_up_for_a_step_that_could_not_be_started_is_counted_with_the_next();
}
