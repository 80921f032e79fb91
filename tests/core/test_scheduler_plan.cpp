// Properties of single plans, over random states.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "check.h"
#include "planner_cases.h"

namespace orin {
namespace {

class Checker {
   public:
    Checker(const PlannerCase & c, const StepPlan & plan)
        : c_(c), plan_(plan), running_(remaining(c, false)), waiting_(remaining(c, true)) {
        for (const RequestView & request : c.state.requests) {
            views_[request.id] = request;
        }
        kept_ = running_;
        kept_.resize(running_.size() - std::min(running_.size(), plan.preempt.size()));
        pages_ = c.state.available_pages;
        for (const RequestId id : plan.preempt) {
            pages_ += views_.at(id).pages_given_back;
        }
    }

    void check_all() {
        check_lists();
        check_preemption();
        check_admission();
        check_decode();
        check_chunk();
        check_pages();
    }

   private:
    int32_t pages(const RequestView & request, int32_t n) const {
        return pages_to_place(c_.state, request, n, !plan_.preempt.empty());
    }
    int32_t all_pages(const RequestView & request) const { return pages(request, tokens_left(request)); }

    // Kept for a request at an admission.
    int32_t claim(const RequestView & request) const {
        int32_t n_pages = all_pages(request);
        if (c_.state.window_pages > 0) {
            const int32_t not_held = c_.state.window_pages - pages_for(c_.state, request.n_placed);
            n_pages = std::min(n_pages, std::max(0, not_held) + pages_for(c_.state, c_.config.chunk_size));
        }
        return n_pages + c_.config.headroom_pages;
    }

    int32_t share_of(int32_t chunk) const {
        const int32_t divisor = c_.config.policy == Policy::ttft ? 4 : 2;
        return (chunk + divisor - 1) / divisor;
    }
    int32_t share() const { return share_of(chunk()); }

    int32_t chunk() const {
        if (c_.config.policy == Policy::tpot && !plan_.decode.empty()) {
            return std::min(c_.config.chunk_size,
                            std::max(c_.state.page_size, c_.config.chunk_size / c_.config.tpot_divisor));
        }
        return c_.config.chunk_size;
    }

    // Every request that ends is reported; a request has one fate.
    void check_lists() {
        std::set<RequestId> seen;
        const auto once = [&](RequestId id) { CHECK(seen.insert(id).second); };
        for (const RequestId id : plan_.drop) {
            once(id);
            CHECK(views_.at(id).cancelled);
        }
        for (const RequestId id : plan_.expire) {
            once(id);
            CHECK(!views_.at(id).cancelled && views_.at(id).deadline_ms <= c_.state.now_ms);
        }
        const auto is_over = [&](const RequestView & request) {
            return request.cancelled || request.deadline_ms <= c_.state.now_ms;
        };
        const auto & all = c_.state.requests;
        CHECK(seen.size() == static_cast<size_t>(std::count_if(all.begin(), all.end(), is_over)));
        CHECK(seen.size() + running_.size() + waiting_.size() == c_.state.requests.size());
        for (const RequestId id : plan_.preempt) {
            once(id);
        }
        for (const RequestId id : plan_.decode) {
            once(id);
            CHECK(views_.at(id).phase == Phase::decode && tokens_left(views_.at(id)) == 1);
        }
        std::set<RequestId> admitted(plan_.admit.begin(), plan_.admit.end());
        for (const PrefillPart & part : plan_.prefill) {
            once(part.id);
            const RequestView & request = views_.at(part.id);
            CHECK(request.phase == Phase::prefill || admitted.count(part.id) == 1);
            CHECK(part.n_tokens > 0 && part.n_tokens <= tokens_left(request));
            CHECK(part.reaches_end == (part.n_tokens == tokens_left(request)));
        }
        for (const RequestId id : admitted) {
            CHECK(views_.at(id).phase == Phase::waiting && !ends(views_.at(id), c_.state.now_ms));
        }
    }

    // The least senior go, no more of them than needed, and never the most senior.
    void check_preemption() {
        CHECK(running_.empty() ? plan_.preempt.empty() : plan_.preempt.size() < running_.size());
        for (size_t i = 0; i < plan_.preempt.size(); i++) {
            CHECK(plan_.preempt[i] == running_[running_.size() - 1 - i].id);
        }
        CHECK(kept_.size() <= 1 || wanted(kept_, !plan_.preempt.empty()) <= pages_);
        if (!plan_.preempt.empty()) {
            std::vector<RequestView> one_more = kept_;
            one_more.push_back(views_.at(plan_.preempt.back()));
            CHECK(wanted(one_more, plan_.preempt.size() > 1) > pages_ - one_more.back().pages_given_back);
            CHECK(plan_.admit.empty());
        }
    }

    // Pages for a token of each that decodes and for the seniors' share of the chunk.
    int32_t wanted(const std::vector<RequestView> & requests, bool after_preemption) const {
        int32_t n_pages = 0;
        int32_t left_of_share = share_of(c_.config.chunk_size);
        for (const RequestView & request : requests) {
            const bool decodes = request.phase == Phase::decode;
            const int32_t n = decodes ? tokens_left(request) : std::min(left_of_share, tokens_left(request));
            left_of_share -= decodes ? 0 : n;
            n_pages += pages_to_place(c_.state, request, n, after_preemption);
        }
        return n_pages;
    }

    void check_admission() {
        const size_t max_batch = static_cast<size_t>(c_.config.max_batch);
        CHECK(kept_.size() + plan_.admit.size() <= max_batch);
        CHECK(!(running_.empty() && !waiting_.empty()) || !plan_.admit.empty());
        int32_t unclaimed = pages_;
        for (const RequestView & request : kept_) {
            unclaimed -= claim(request);
        }
        size_t n_admitted = 0;
        std::map<RequestId, int32_t> overtaken;
        for (const RequestId id : plan_.overtaken) {
            overtaken[id]++;
        }
        std::map<RequestId, int32_t> expected;
        bool stopped = !plan_.preempt.empty();
        size_t n_seen = 0;
        for (const RequestView & request : waiting_) {
            const bool is_admitted = n_admitted < plan_.admit.size() && plan_.admit[n_admitted] == request.id;
            const bool fits = claim(request) <= unclaimed || kept_.size() + n_admitted == 0;
            stopped = stopped || kept_.size() + n_admitted == max_batch || n_seen++ == max_batch;
            CHECK(is_admitted == (fits && !stopped));
            if (is_admitted) {
                n_admitted++;
                unclaimed -= claim(request);
                for (auto & [id, times] : expected) {
                    times++;
                    stopped = stopped || views_.at(id).n_overtaken + times >= c_.config.max_overtakes;
                }
            } else if (!stopped) {
                stopped = request.n_overtaken >= c_.config.max_overtakes;
                expected[request.id] = 0;
            }
        }
        CHECK(n_admitted == plan_.admit.size());
        for (const auto & [id, times] : expected) {
            CHECK(overtaken[id] == times);
            CHECK(times == 0 || views_.at(id).n_overtaken + times <= c_.config.max_overtakes);
            overtaken.erase(id);
        }
        CHECK(overtaken.empty());
    }

    // All or none, and none only under ttft while prompts get on instead.
    void check_decode() {
        std::vector<RequestId> all;
        bool has_work = running_.empty() && !waiting_.empty();
        for (const RequestView & request : kept_) {
            has_work |= tokens_left(request) > 0;
            if (request.phase == Phase::decode && tokens_left(request) > 0) {
                all.push_back(request.id);
            }
        }
        if (plan_.stalls_decode) {
            CHECK(c_.config.policy == Policy::ttft && !all.empty() && plan_.decode.empty());
            CHECK(c_.state.stalled_steps < c_.config.max_stall_steps && !plan_.prefill.empty());
            CHECK(plan_.admit.size() == waiting_.size() && kept_.size() == running_.size());
            CHECK(2 * (kept_.size() + plan_.admit.size()) <= static_cast<size_t>(c_.config.max_batch));
        } else {
            CHECK(plan_.decode == all);
        }
        CHECK(!has_work || !plan_.decode.empty() || !plan_.prefill.empty());
    }

    void check_chunk() {
        std::map<RequestId, int32_t> granted;
        int32_t sum = 0;
        for (const PrefillPart & part : plan_.prefill) {
            granted[part.id] = part.n_tokens;
            sum += part.n_tokens;
        }
        CHECK(sum <= chunk());
        std::vector<RequestView> prompts;
        for (const RequestView & request : kept_) {
            if (request.phase == Phase::prefill) {
                prompts.push_back(request);
            }
        }
        for (const RequestId id : plan_.admit) {
            prompts.push_back(views_.at(id));
        }
        std::sort(prompts.begin(), prompts.end(),
                  [&](const RequestView & a, const RequestView & b) { return more_senior(c_.config, a, b); });
        for (size_t i = 1; i < plan_.prefill.size(); i++) {
            CHECK(more_senior(c_.config, views_.at(plan_.prefill[i - 1].id), views_.at(plan_.prefill[i].id)));
        }
        int32_t all_left = 0;
        int32_t to_seniors = 0;
        const RequestView * shortest = nullptr;
        int32_t need = 0;
        for (const RequestView & prompt : prompts) {
            need += all_pages(prompt);
            all_left += tokens_left(prompt);
            to_seniors += granted[prompt.id];
            CHECK(to_seniors >= std::min(share(), all_left));
            if (shortest == nullptr || tokens_left(prompt) < tokens_left(*shortest)) {
                shortest = &prompt;
            }
        }
        int32_t decode_pages = 0;
        for (const RequestView & request : kept_) {
            decode_pages += request.phase == Phase::decode ? pages(request, tokens_left(request)) : 0;
        }
        if (need + decode_pages <= pages_) {
            CHECK(sum == std::min(chunk(), all_left));
            CHECK(!shortest || granted[shortest->id] >= std::min(chunk() - share(), tokens_left(*shortest)));
        }
    }

    void check_pages() {
        int32_t n_pages = 0;
        for (const RequestId id : plan_.decode) {
            n_pages += pages(views_.at(id), 1);
        }
        for (const PrefillPart & part : plan_.prefill) {
            n_pages += pages(views_.at(part.id), part.n_tokens);
        }
        CHECK(n_pages <= pages_);
    }

    const PlannerCase & c_;
    const StepPlan & plan_;
    std::map<RequestId, RequestView> views_;
    std::vector<RequestView> running_;  // that do not end; most senior first
    std::vector<RequestView> waiting_;
    std::vector<RequestView> kept_;  // of running_, those not preempted
    int32_t pages_;                  // available after preemption
};

void check_order_of_requests_does_not_matter(PlannerCase c, const std::string & expected, Random & random) {
    for (size_t i = c.state.requests.size(); i > 1; i--) {
        std::swap(c.state.requests[i - 1],
                  c.state.requests[static_cast<size_t>(random.below(static_cast<int32_t>(i)))]);
    }
    CHECK(plan_step(c.config, c.state).to_string() == expected);
}

}  // namespace
}  // namespace orin

int main(int argc, char ** argv) {
    using namespace orin;
    Random random(1);
    int64_t n_preempting = 0;
    int64_t n_overtaking = 0;
    int64_t n_stalling = 0;
    for (int64_t n = operations(argc, argv, 50000); n > 0; n--) {
        const PlannerCase c = random_planner_case(random);
        Planner planner(c.config);
        const StepPlan first = planner.plan(c.state);
        Checker(c, first).check_all();
        n_preempting += !first.preempt.empty();
        n_overtaking += !first.overtaken.empty();
        n_stalling += first.stalls_decode;
        CHECK(planner.plan(c.state).to_string() == first.to_string());  // buffers of the last plan do not matter
        check_order_of_requests_does_not_matter(c, first.to_string(), random);
    }
    CHECK(n_preempting > 0 && n_overtaking > 0 && n_stalling > 0);
}
