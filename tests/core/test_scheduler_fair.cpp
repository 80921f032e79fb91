// The bounds of planner.h under arrivals that try to break them: streams of short prompts that never end, bursts of
// equal ones, priorities, scarce pages.
#include <algorithm>
#include <map>

#include "check.h"
#include "scheduler/scheduler.h"

namespace orin {
namespace {

enum class Arrivals { stream_of_short, equal_bursts, mixed };

struct Setup {
    PlannerConfig planner;
    PagedKvConfig kv;
    Arrivals arrivals = Arrivals::mixed;
    int32_t priorities = 1;
};

Setup random_setup(Random & random) {
    Setup setup;
    setup.arrivals = static_cast<Arrivals>(random.below(3));
    setup.priorities = random.one_in(2) ? 3 : 1;
    PlannerConfig & planner = setup.planner;
    planner.policy = static_cast<Policy>(random.below(3));
    planner.chunk_size = 1 + random.below(32);
    planner.max_batch = 2 + random.below(7);
    planner.max_overtakes = random.below(6);
    planner.max_stall_steps = random.below(5);
    planner.head_start_ms = 15.0;
    PagedKvConfig & kv = setup.kv;
    kv.page_size = 4;
    kv.max_tokens = 400;
    kv.max_sequences = planner.max_batch;
    kv.prefix_cache = false;  // what is found there only helps
    kv.n_pages = 2 + (random.one_in(2) ? 2000 : 110);
    return setup;
}

class Run {
   public:
    Run(const Setup & setup, Random & random) : setup_(setup), random_(random), scheduler_(setup.planner, setup.kv) {}

    // Returns how many long prompts had their first token.
    int64_t run(int64_t n_steps) {
        for (int64_t i = 0; i < n_steps; i++) {
            arrive(i);
            step();
        }
        return n_long_done_;
    }

   private:
    struct Tracked {
        double seniority_ms = 0.0;
        int32_t n_known = 0;
        int32_t n_left = 0;  // to place, once admitted
        bool admitted = false;
        int32_t n_overtaken = 0;    // while waiting
        int64_t tokens_before = 0;  // its own, and those of more senior prompts since it was admitted
        int64_t credit = 0;         // what the seniors' shares of the steps since then add up to
        int32_t waits_for_token = 0;
    };

    void arrive(int64_t step_number) {
        switch (setup_.arrivals) {
            case Arrivals::stream_of_short:
                if (step_number % 100 == 0) {
                    submit(300, 3);
                }
                submit(1 + random_.below(setup_.planner.chunk_size), 1 + random_.below(3));
                break;
            case Arrivals::equal_bursts:
                for (int32_t n = step_number % 40 == 0 ? 20 : 0; n > 0; n--) {
                    submit(120, 8);
                }
                break;
            case Arrivals::mixed:
                if (random_.one_in(3)) {
                    submit(1 + random_.below(random_.one_in(4) ? 300 : 20), 1 + random_.below(60));
                }
                break;
        }
    }

    void submit(int32_t n_prompt, int32_t max_tokens) {
        if (scheduler_.n_requests() > 60) {
            return;
        }
        RequestParams params;
        params.prompt.assign(size_t(n_prompt), 7);
        params.max_tokens = max_tokens;
        params.priority = random_.below(setup_.priorities);
        Tracked tracked;
        tracked.seniority_ms = now_ms_ - params.priority * setup_.planner.head_start_ms;
        tracked.n_known = n_prompt;
        requests_[scheduler_.submit(params, now_ms_)] = tracked;
    }

    bool more_senior(RequestId a, RequestId b) const {
        const double a_ms = requests_.at(a).seniority_ms;
        const double b_ms = requests_.at(b).seniority_ms;
        return a_ms != b_ms ? a_ms < b_ms : a < b;
    }

    void step() {
        now_ms_ += 1.0;
        const StepBatch & batch = scheduler_.plan(now_ms_);
        const StepPlan & plan = scheduler_.last_plan();
        for (const RequestId id : plan.preempt) {
            requests_.at(id).admitted = false;
        }
        for (const RequestId id : plan.admit) {
            admit(id);
        }
        check_prompts(plan);
        check_decode(plan);
        if (!batch.rows.empty()) {
            finish(batch);
        }
    }

    void admit(RequestId id) {
        Tracked & request = requests_.at(id);
        request.admitted = true;
        request.n_left = request.n_known;
        request.tokens_before = request.n_known;
        request.credit = 0;
        request.waits_for_token = 0;
        for (auto & [other_id, other] : requests_) {
            if (other_id == id) {
                continue;
            }
            if (!other.admitted) {
                const bool overtaken = more_senior(other_id, id) && !is_admitted_now(other_id);
                other.n_overtaken += overtaken;
                CHECK(other.n_overtaken <= setup_.planner.max_overtakes);
            } else if (more_senior(other_id, id)) {
                request.tokens_before += other.n_left;
            } else {
                other.tokens_before += request.n_known;
            }
        }
    }

    bool is_admitted_now(RequestId id) const {
        const auto & admit = scheduler_.last_plan().admit;
        return std::find(admit.begin(), admit.end(), id) != admit.end();
    }

    void check_prompts(const StepPlan & plan) {
        int32_t chunk = setup_.planner.chunk_size;
        if (setup_.planner.policy == Policy::tpot && !plan.decode.empty()) {
            chunk = std::min(chunk, std::max(setup_.kv.page_size, chunk / setup_.planner.tpot_divisor));
        }
        const int32_t divisor = setup_.planner.policy == Policy::ttft ? 4 : 2;
        for (const PrefillPart & part : plan.prefill) {
            requests_.at(part.id).n_left -= part.n_tokens;
            CHECK(part.reaches_end == (requests_.at(part.id).n_left == 0));
        }
        for (auto & [id, request] : requests_) {
            if (request.admitted && request.n_left > 0) {
                request.credit += (chunk + divisor - 1) / divisor;
                CHECK(request.credit < request.tokens_before);
            }
        }
    }

    // Called after check_prompts(): a prompt that has just reached its end has its token from there.
    void check_decode(const StepPlan & plan) {
        const int32_t may_wait = setup_.planner.policy == Policy::ttft ? setup_.planner.max_stall_steps : 0;
        for (const RequestId id : plan.decode) {
            requests_.at(id).waits_for_token = -1;
        }
        for (const PrefillPart & part : plan.prefill) {
            requests_.at(part.id).waits_for_token = -1;
        }
        for (auto & [id, request] : requests_) {
            request.waits_for_token++;
            CHECK(!request.admitted || request.n_left > 0 || request.waits_for_token <= may_wait);
        }
    }

    void finish(const StepBatch & batch) {
        for (const BatchOutput & output : batch.outputs) {
            Tracked & request = requests_.at(output.request);
            n_long_done_ += request.n_known == 300;
            request.n_known++;
        }
        for (const RequestId id : scheduler_.finish_step(std::vector<Sampled>(batch.outputs.size(), {7, false}))) {
            requests_.erase(id);
        }
    }

    const Setup setup_;
    Random & random_;
    Scheduler scheduler_;
    std::map<RequestId, Tracked> requests_;
    double now_ms_ = 0.0;
    int64_t n_long_done_ = 0;
};

}  // namespace
}  // namespace orin

int main(int argc, char ** argv) {
    using namespace orin;
    Random random(3);
    const int64_t n_steps = operations(argc, argv, 300000);
    int64_t n_long_done = 0;
    for (int64_t done = 0; done < n_steps; done += 400) {
        n_long_done += Run(random_setup(random), random).run(400);
    }
    CHECK(n_long_done > 0);
}
