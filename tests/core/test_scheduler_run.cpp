// Whatever runs beside a request, however often it is preempted and whichever steps fail: its text is the one that it
// would have alone, and nothing is left behind.
#include <algorithm>
#include <iterator>
#include <map>

#include "fake_model.h"
#include "other_holder.h"

namespace orin {
namespace {

constexpr int32_t end_token = 0;

struct Setup {
    PlannerConfig planner;
    PagedKvConfig kv;
    int32_t n_vocab = 2;
    bool forks = false;  // others hold sequences, too, so that pages are copied before they are written
};

Setup random_setup(Random & random) {
    Setup setup;
    PlannerConfig & planner = setup.planner;
    planner.policy = static_cast<Policy>(random.below(3));
    planner.chunk_size = 1 + random.below(40);
    planner.max_batch = 1 + random.below(8);
    planner.headroom_pages = random.below(2);
    planner.max_overtakes = random.below(4);
    planner.max_stall_steps = random.below(4);
    planner.head_start_ms = random.below(20);
    PagedKvConfig & kv = setup.kv;
    kv.page_size = 1 << random.below(5);
    kv.max_tokens = 40 + random.below(100);
    kv.max_sequences = planner.max_batch + 2;
    kv.window = random.one_in(3) ? 1 + random.below(60) : 0;
    kv.prefix_cache = !random.one_in(4);
    kv.hash_bits = random.one_in(3) ? 2 : 64;
    setup.n_vocab = 2 + random.below(random.one_in(3) ? 20 : 500);
    const int32_t longest = kv.pages_for(kv.max_tokens);
    const int32_t in_window = kv.pages_for(kv.window) + 1 + kv.pages_for(planner.chunk_size);
    if (random.one_in(3)) {
        // A fork gives no page back, so that pages must not become scarce.
        setup.forks = true;
        kv.n_pages = 2 + (kv.max_sequences + 1) * (longest + 1);
    } else {
        // Room for the longest request, and some more.
        const int32_t least = kv.window > 0 ? std::min(longest, in_window) : longest;
        kv.n_pages = 1 + least + random.below(least + 1);
    }
    return setup;
}

class Run {
   public:
    Run(const Setup & setup, Random & random)
        : setup_(setup),
          random_(random),
          scheduler_(setup.planner, setup.kv),
          model_(setup.kv.n_pages, setup.kv.page_size, setup.kv.window, setup.n_vocab),
          other_holder_(scheduler_.kv(), setup.kv, model_) {
        for (std::vector<int32_t> & prefix : prefixes_) {
            prefix = random_tokens(random_.below(setup.kv.max_tokens - 1));
        }
    }

    const SchedulerCounters & counters() const { return scheduler_.counters(); }

    // Returns the number of steps.
    int64_t run(int64_t n_steps) {
        int64_t done = 0;
        for (; done < n_steps; done++) {
            while (scheduler_.n_requests() < 3 || random_.one_in(6)) {
                submit();
            }
            if (random_.one_in(20)) {
                cancel();
            }
            if (setup_.forks && random_.one_in(8)) {
                other_holder_.fork_or_close();
            }
            step(random_.one_in(12));
            check_counters();
        }
        other_holder_.close();
        return done + drain();
    }

   private:
    struct Expectation {
        std::vector<int32_t> tokens;  // prompt and generated so far
        int32_t n_left = 0;
        double deadline_ms = 0.0;
        bool cancelled = false;
        int32_t n_reached = 0;  // most tokens that it ever had in cells
    };

    std::vector<int32_t> random_tokens(int32_t n) {
        std::vector<int32_t> tokens;
        for (int32_t i = 0; i < n; i++) {
            tokens.push_back(random_.below(setup_.n_vocab));
        }
        return tokens;
    }

    // A piece of one of a few prefixes and some more. Short prompts with long answers make pages run out.
    void submit() {
        RequestParams params;
        params.prompt = prefixes_[size_t(random_.below(3))];
        params.prompt.resize(size_t(random_.below(static_cast<int32_t>(params.prompt.size()) + 1)));
        const int32_t room = setup_.kv.max_tokens - static_cast<int32_t>(params.prompt.size()) - 2;
        const int32_t most = random_.one_in(2) ? 4 : setup_.kv.max_tokens;
        for (const int32_t token : random_tokens(1 + random_.below(std::clamp(room, 1, most)))) {
            params.prompt.push_back(token);
        }
        const int32_t left = setup_.kv.max_tokens - static_cast<int32_t>(params.prompt.size());
        params.max_tokens = random_.one_in(2) ? left : 1 + random_.below(left);
        params.priority = random_.below(3);
        if (random_.one_in(10)) {
            params.deadline_ms = now_ms_ + random_.below(60);
        }
        const RequestId id = scheduler_.submit(params, now_ms_);
        Expectation expectation;
        expectation.tokens = params.prompt;
        expectation.n_left = params.max_tokens;
        expectation.deadline_ms = params.deadline_ms;
        expected_[id] = expectation;
    }

    void cancel() {
        const auto chosen = std::next(expected_.begin(), random_.below(static_cast<int32_t>(expected_.size())));
        CHECK(scheduler_.cancel(chosen->first));
        chosen->second.cancelled = true;
    }

    void step(bool fails) {
        now_ms_ += 1.0;
        const StepBatch & batch = scheduler_.plan(now_ms_);
        const StepPlan & plan = scheduler_.last_plan();
        for (const RequestId id : plan.drop) {
            CHECK(expected_.at(id).cancelled);
            expected_.erase(id);
        }
        for (const RequestId id : plan.expire) {
            CHECK(expected_.at(id).deadline_ms <= now_ms_);
            expected_.erase(id);
        }
        if (batch.rows.empty()) {
            CHECK(expected_.empty());
            return;
        }
        check_batch(batch);
        if (fails) {
            model_.compute(without_some_copies(batch), size_t(random_.below(static_cast<int32_t>(batch.rows.size()))));
            scheduler_.fail_step();
            return;
        }
        model_.compute(batch, batch.rows.size());
        count_rows(batch);
        finish(batch);
    }

    void count_rows(const StepBatch & batch) {
        size_t row = 0;
        const auto count = [&](RequestId id, int32_t n_tokens, int64_t & first_time) {
            int32_t & n_reached = expected_.at(id).n_reached;
            const int32_t first = batch.rows[row].position;
            const int32_t n_again = std::clamp(n_reached - first, 0, n_tokens);
            n_recomputed_ += n_again;
            first_time += n_tokens - n_again;
            n_reached = std::max(n_reached, first + n_tokens);
            row += size_t(n_tokens);
        };
        for (const RequestId id : scheduler_.last_plan().decode) {
            count(id, 1, n_decoded_);
        }
        for (const PrefillPart & part : scheduler_.last_plan().prefill) {
            count(part.id, part.n_tokens, n_prefilled_);
        }
        CHECK(row == batch.rows.size());
    }

    void check_batch(const StepBatch & batch) {
        const size_t n_decode = static_cast<size_t>(batch.n_decode_rows);
        CHECK(batch.rows.size() - n_decode <= static_cast<size_t>(setup_.planner.chunk_size));
        CHECK(n_decode <= static_cast<size_t>(setup_.planner.max_batch));
        size_t n_wanted = 0;
        for (size_t i = 0; i < batch.rows.size(); i++) {
            const BatchRow & row = batch.rows[i];
            CHECK(row.cell == scheduler_.kv().cell(row.sequence, row.position));
            CHECK(i >= n_decode || row.wants_logits);
            if (row.wants_logits) {
                CHECK(n_wanted < batch.outputs.size() && batch.outputs[n_wanted].row == static_cast<int32_t>(i));
                n_wanted++;
            }
        }
        CHECK(n_wanted == batch.outputs.size());
    }

    // A step can fail before its copies are made.
    StepBatch without_some_copies(const StepBatch & batch) {
        StepBatch partial = batch;
        partial.copies.resize(size_t(random_.below(static_cast<int32_t>(batch.copies.size()) + 1)));
        return partial;
    }

    void finish(const StepBatch & batch) {
        std::vector<Sampled> sampled;
        std::vector<RequestId> ended;
        for (const BatchOutput & output : batch.outputs) {
            Expectation & request = expected_.at(output.request);
            const BatchRow & row = batch.rows[size_t(output.row)];
            const int32_t token = model_.sample(scheduler_.kv(), row);
            CHECK(row.position == static_cast<int32_t>(request.tokens.size()) - 1);
            CHECK(row.token == request.tokens.back());
            CHECK(token == model_.next(request.tokens));
            CHECK(scheduler_.tokens(output.request) == request.tokens);
            request.tokens.push_back(token);
            request.n_left--;
            sampled.push_back({token, token == end_token});
            if (token == end_token || request.n_left == 0) {
                ended.push_back(output.request);
            }
        }
        CHECK(scheduler_.finish_step(sampled) == ended);
        for (const RequestId id : ended) {
            expected_.erase(id);
        }
    }

    void check_counters() {
        const SchedulerCounters & n = scheduler_.counters();
        CHECK(scheduler_.n_requests() == expected_.size());
        CHECK(n.submitted == n.finished + n.cancelled + n.expired + static_cast<int64_t>(expected_.size()));
        CHECK(n.tokens_prefilled == n_prefilled_);
        CHECK(n.tokens_recomputed == n_recomputed_);
        CHECK(n.tokens_decoded == n_decoded_);
        CHECK(n.prefix_tokens_reused == scheduler_.kv().counters().prefix_hits);
        CHECK(n.admitted <= n.submitted + n.preempted);
        if (random_.one_in(8)) {
            scheduler_.kv().check();
        }
    }

    // Without new requests all end: in no more steps than one after the other would take.
    int64_t drain() {
        const int32_t tpot_chunk = std::max(1, setup_.planner.chunk_size / setup_.planner.tpot_divisor);
        int64_t bound = 1;
        for (const auto & [id, request] : expected_) {
            const int64_t n = static_cast<int64_t>(request.tokens.size()) + request.n_left;
            bound += 1 + 2 * n / tpot_chunk + request.n_left * int64_t(setup_.planner.max_stall_steps + 1);
        }
        int64_t steps = 0;
        for (; scheduler_.n_requests() > 0; steps++) {
            CHECK(steps < bound);
            step(false);
        }
        check_counters();
        const PageCounters pages = scheduler_.kv().counters();
        CHECK(pages.used == 0 && pages.cached + pages.free == setup_.kv.n_pages - 1);
        scheduler_.kv().check();
        return steps;
    }

    const Setup setup_;
    Random & random_;
    Scheduler scheduler_;
    FakeModel model_;
    OtherHolder other_holder_;
    std::vector<int32_t> prefixes_[3];
    std::map<RequestId, Expectation> expected_;
    double now_ms_ = 0.0;
    int64_t n_prefilled_ = 0;
    int64_t n_recomputed_ = 0;
    int64_t n_decoded_ = 0;
};

}  // namespace
}  // namespace orin

int main(int argc, char ** argv) {
    using namespace orin;
    Random random(2);
    const int64_t n_steps = operations(argc, argv, 300000);
    int64_t n_preempted = 0;
    for (int64_t done = 0; done < n_steps;) {
        Run run(random_setup(random), random);
        done += run.run(200);
        n_preempted += run.counters().preempted;
    }
    CHECK(n_preempted > n_steps / 200);
}
