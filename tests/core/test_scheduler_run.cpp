// Whatever runs beside a request, however often it is preempted, whichever steps fail, and whether steps are planned
// before it is known what the one under way draws: its text is the one that it would have alone, and nothing is left.
#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <set>

#include "late_model.h"
#include "other_holder.h"
#include "scheduler_setup.h"

namespace orin {
namespace {

constexpr int32_t end_token = 0;

class Run {
   public:
    Run(const Setup & setup, Random & random)
        : setup_(setup),
          random_(random),
          scheduler_(setup.planner, setup.kv),
          model_(setup.kv.n_pages, setup.kv.page_size, setup.kv.window, setup.n_vocab),
          device_(model_),
          other_holder_(scheduler_.kv(), setup.kv, model_),
          requests_(setup, random) {}

    const SchedulerCounters & counters() const { return scheduler_.counters(); }
    int64_t n_ahead() const { return n_ahead_; }      // rows whose token was not known
    int64_t n_in_vain() const { return n_in_vain_; }  // rows of requests that were gone

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
                settle();
                other_holder_.fork_or_close();
            }
            step();
            check_counters();
        }
        settle();
        other_holder_.close();
        return done + drain();
    }

   private:
    struct Expectation {
        std::vector<int32_t> tokens;  // prompt and generated so far
        int32_t n_left = 0;
        double deadline_ms = 0.0;
        bool cancelled = false;
        bool runs_ahead = true;
        int32_t n_reached = 0;  // most tokens that it ever had in cells
    };

    // A step that is not collected yet.
    struct Started {
        StepBatch batch;
        std::vector<PrefillPart> parts;  // the decode rows', too
        bool fails;
    };

    void submit() {
        const RequestParams params = requests_.next(now_ms_);
        const RequestId id = scheduler_.submit(params, now_ms_);
        Expectation expectation;
        expectation.runs_ahead = params.runs_ahead;
        expectation.tokens = params.prompt;
        expectation.n_left = params.max_tokens;
        expectation.deadline_ms = params.deadline_ms;
        expected_[id] = expectation;
    }

    void cancel() {
        const auto chosen = std::next(expected_.begin(), random_.below(static_cast<int32_t>(expected_.size())));
        CHECK(scheduler_.cancel(chosen->first));
        chosen->second.cancelled = true;
        if (random_.one_in(2)) {
            for (const RequestId id : scheduler_.drop_cancelled()) {
                CHECK(expected_.at(id).cancelled);
                expected_.erase(id);
            }
        }
    }

    void step() {
        now_ms_ += 1.0;
        while (static_cast<int32_t>(started_.size()) < setup_.max_under_way && start()) {
        }
        CHECK(expected_.empty() || !started_.empty() || step_failed_);
        if (!started_.empty()) {
            collect();
        }
    }

    void settle() {
        while (!started_.empty()) {
            collect();
        }
    }

    bool start() {
        const StepBatch & batch = scheduler_.plan(now_ms_);
        const StepPlan & plan = scheduler_.last_plan();
        step_failed_ = false;
        for (const RequestId id : plan.drop) {
            CHECK(expected_.at(id).cancelled);
            expected_.erase(id);
        }
        for (const RequestId id : plan.expire) {
            CHECK(expected_.at(id).deadline_ms <= now_ms_);
            expected_.erase(id);
        }
        CHECK(started_.empty() || (plan.drop.empty() && plan.expire.empty() && plan.preempt.empty()));
        if (batch.rows.empty()) {
            return false;
        }
        check_batch(batch);
        const size_t n_some = size_t(random_.below(static_cast<int32_t>(batch.rows.size())));
        if (is_draining_ || !random_.one_in(12)) {
            start(batch, plan, batch.rows.size(), false);
            return true;
        }
        if (random_.one_in(2)) {
            start(without_some_copies(batch), plan, n_some, true);
            return true;
        }
        device_.start(scheduler_.kv(), without_some_copies(batch), n_some, true);
        scheduler_.fail_step();
        step_failed_ = true;
        return false;
    }

    void start(const StepBatch & batch, const StepPlan & plan, size_t n_rows, bool fails) {
        device_.start(scheduler_.kv(), batch, n_rows);
        Started started = {batch, {}, fails};
        for (const RequestId id : plan.decode) {
            started.parts.push_back({id, 1, true});
        }
        started.parts.insert(started.parts.end(), plan.prefill.begin(), plan.prefill.end());
        started_.push_back(std::move(started));
    }

    void collect() {
        const Started oldest = std::move(started_.front());
        started_.pop_front();
        const std::vector<int32_t> drawn = device_.collect();
        if (oldest.fails) {
            for (; !started_.empty(); started_.pop_front()) {
                device_.collect();
                scheduler_.fail_step();
            }
            scheduler_.fail_step();
            return;
        }
        count_rows(oldest);
        finish(oldest.batch, drawn);
    }

    void count_rows(const Started & step) {
        const size_t n_decode = static_cast<size_t>(step.batch.n_decode_rows);
        size_t row = 0;
        for (const PrefillPart & part : step.parts) {
            const auto found = expected_.find(part.id);
            if (found != expected_.end()) {
                int32_t & n_reached = found->second.n_reached;
                const int32_t first = step.batch.rows[row].position;
                const int32_t n_again = std::clamp(n_reached - first, 0, part.n_tokens);
                n_recomputed_ += n_again;
                (row < n_decode ? n_decoded_ : n_prefilled_) += part.n_tokens - n_again;
                n_reached = std::max(n_reached, first + part.n_tokens);
            } else {
                n_in_vain_ += part.n_tokens;
            }
            row += size_t(part.n_tokens);
        }
        CHECK(row == step.batch.rows.size());
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
            CHECK(i < n_decode || row.token != unknown_token);
            if (row.wants_logits) {
                CHECK(n_wanted < batch.outputs.size() && batch.outputs[n_wanted].row == static_cast<int32_t>(i));
                check_output(row, batch.outputs[n_wanted].request);
                n_wanted++;
            }
        }
        CHECK(n_wanted == batch.outputs.size());
    }

    // The token is known, or it is the one that the step under way draws, and not the last.
    void check_output(const BatchRow & row, RequestId id) {
        const Expectation & request = expected_.at(id);
        bool is_being_drawn = false;
        for (const Started & step : started_) {
            for (const BatchOutput & output : step.batch.outputs) {
                is_being_drawn |= output.request == id;
            }
        }
        CHECK(row.position == static_cast<int32_t>(request.tokens.size()) - 1 + is_being_drawn);
        CHECK(row.token == (is_being_drawn ? unknown_token : request.tokens.back()));
        CHECK(!is_being_drawn || (request.runs_ahead && request.n_left > 1));
        n_ahead_ += is_being_drawn;
    }

    // A step can fail before its copies are made.
    StepBatch without_some_copies(const StepBatch & batch) {
        StepBatch partial = batch;
        partial.copies.resize(size_t(random_.below(static_cast<int32_t>(batch.copies.size()) + 1)));
        return partial;
    }

    void finish(const StepBatch & batch, const std::vector<int32_t> & drawn) {
        std::vector<Sampled> sampled;
        std::vector<RequestId> ended;
        for (size_t i = 0; i < drawn.size(); i++) {
            const RequestId id = batch.outputs[i].request;
            sampled.push_back({drawn[i], drawn[i] == end_token});
            const auto found = expected_.find(id);
            if (found == expected_.end()) {
                continue;
            }
            Expectation & request = found->second;
            CHECK(batch.rows[size_t(batch.outputs[i].row)].position == static_cast<int32_t>(request.tokens.size()) - 1);
            CHECK(drawn[i] == model_.next(request.tokens));
            CHECK(scheduler_.tokens(id) == request.tokens);
            request.tokens.push_back(drawn[i]);
            request.n_left--;
            if (drawn[i] == end_token || request.n_left == 0) {
                ended.push_back(id);
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
        scheduler_.kv().check();
    }

    // Without new requests all end: in no more steps than one after the other would take.
    int64_t drain() {
        const int32_t tpot_chunk = std::max(1, setup_.planner.chunk_size / setup_.planner.tpot_divisor);
        int64_t bound = 1;
        for (const auto & [id, request] : expected_) {
            const int64_t n = static_cast<int64_t>(request.tokens.size()) + request.n_left;
            bound += 1 + 2 * n / tpot_chunk + request.n_left * int64_t(setup_.planner.max_stall_steps + 1);
        }
        bound *= setup_.max_under_way;
        is_draining_ = true;
        int64_t steps = 0;
        for (; scheduler_.n_requests() > 0; steps++) {
            CHECK(steps < bound);
            step();
        }
        settle();
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
    LateModel device_;
    OtherHolder other_holder_;
    std::deque<Started> started_;
    RandomRequests requests_;
    std::map<RequestId, Expectation> expected_;
    double now_ms_ = 0.0;
    bool is_draining_ = false;
    bool step_failed_ = false;
    int64_t n_prefilled_ = 0;
    int64_t n_recomputed_ = 0;
    int64_t n_decoded_ = 0;
    int64_t n_ahead_ = 0;
    int64_t n_in_vain_ = 0;
};

}  // namespace
}  // namespace orin

int main(int argc, char ** argv) {
    using namespace orin;
    Random random(2);
    const int64_t n_steps = operations(argc, argv, 300000);
    int64_t n_preempted = 0;
    int64_t n_ahead = 0;
    int64_t n_in_vain = 0;
    for (int64_t done = 0; done < n_steps;) {
        Run run(random_setup(random), random);
        done += run.run(200);
        n_preempted += run.counters().preempted;
        n_ahead += run.n_ahead();
        n_in_vain += run.n_in_vain();
    }
    CHECK(n_preempted > n_steps / 200 && n_ahead > n_steps / 2 && n_in_vain > n_steps / 100);
}
