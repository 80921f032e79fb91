// A device in small: it computes the steps that were started, in order, but not before somebody waits for them, from
// what it was told when they were started. So a step sees what steps before it wrote, and nothing that the host did
// since.
#pragma once

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "fake_model.h"

namespace orin {

class LateModel {
   public:
    explicit LateModel(FakeModel & model) : model_(model) {}

    // Only n_rows of the rows are computed where the step is to fail on the way; it draws nothing then. Nobody collects
    // one whose start has failed.
    void start(const PagedKv & kv, const StepBatch & batch, size_t n_rows, bool start_fails = false) {
        Job job = {batch, n_rows, start_fails, {}, false};
        for (const BatchOutput & output : batch.outputs) {
            job.cells_seen.push_back(model_.cells_seen(kv, batch.rows[size_t(output.row)]));
        }
        jobs_.push_back(std::move(job));
    }

    // What the oldest step drew. One after a step that failed has to be thrown away, too.
    std::vector<int32_t> collect() {
        while (jobs_.front().start_failed) {
            run();
        }
        return run();
    }

   private:
    struct Job {
        StepBatch batch;
        size_t n_rows;
        bool start_failed;
        std::vector<std::vector<int64_t>> cells_seen;  // by output
        bool is_spoilt = false;                        // computed from what a step before it failed to compute
    };

    std::vector<int32_t> run() {
        Job job = std::move(jobs_.front());
        jobs_.pop_front();
        for (BatchRow & row : job.batch.rows) {
            if (row.token == unknown_token) {
                row.token = fed_.at(row.sequence);
            }
        }
        model_.compute(job.batch, job.n_rows);
        std::vector<int32_t> drawn;
        const bool failed = job.n_rows < job.batch.rows.size();
        for (size_t i = 0; i < job.batch.outputs.size(); i++) {
            const BatchRow & row = job.batch.rows[size_t(job.batch.outputs[i].row)];
            drawn.push_back(failed || job.is_spoilt ? -1 : model_.sample(job.cells_seen[i], row.position));
            fed_[row.sequence] = drawn.back();
        }
        for (Job & later : jobs_) {
            later.is_spoilt |= failed && !job.start_failed;
        }
        return drawn;
    }

    FakeModel & model_;
    std::deque<Job> jobs_;
    std::map<SequenceId, int32_t> fed_;  // the token drawn last
};

}  // namespace orin
