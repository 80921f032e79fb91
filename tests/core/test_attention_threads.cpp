// Threads that share steps of paged attention, against sums in double: right, and the same bits however they
// interleave. Needs nothing but cpp/attention, so that it runs under the thread sanitizer and on other processors.
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "attention/kv_rows.h"
#include "attention/paged_attention.h"
#include "attention/workspace.h"
#include "check.h"

namespace orin::attention {
namespace {

constexpr int32_t n_head = 6;
constexpr int32_t n_head_kv = 2;
constexpr int32_t head_dim = 64;
constexpr int32_t page_size = 16;
constexpr int32_t max_pages = 48;
constexpr int32_t n_tokens = 12;

// Two sequences: a prefill run of 10 tokens in one, a decode token in the other, one more in the first.
struct Step {
    KvType type;
    std::vector<char> k, v;
    std::vector<int32_t> tables, rows, positions;
    std::vector<float> q, out;
    PagedAttention op;

    Step(KvType type_, int32_t length, Random & random) : type(type_) {
        const size_t bytes = row_bytes(type, n_head_kv * head_dim);
        for (std::vector<char> * cells : {&k, &v}) {
            cells->resize(2 * max_pages * page_size * bytes);
            for (size_t i = 0; i < cells->size(); i += 2) {
                // As f16 or as the two bytes of a bf16: numbers of size 1, also where a scale is expected.
                const auto value = static_cast<uint16_t>(0x3400 + random.below(0x800) + 0x8000 * random.below(2));
                std::memcpy(cells->data() + i, &value, 2);
            }
        }
        for (int32_t page = 0; page < 2 * max_pages; ++page) {
            tables.push_back((page * 37 + 5) % (2 * max_pages));
        }
        for (int32_t i = 0; i < n_tokens; ++i) {
            rows.push_back(i == 10 ? 1 : 0);
            positions.push_back(i < 10 ? length + i : length / (i - 9));
        }
        for (int32_t i = 0; i < n_tokens * n_head * head_dim; ++i) {
            q.push_back(0.01f * float(random.below(101) - 50));
        }
        out.resize(q.size());
        op.n_head = n_head;
        op.n_head_kv = n_head_kv;
        op.head_dim_k = op.head_dim_v = head_dim;
        op.scale = 0.125f;
        op.k_type = op.v_type = type;
        op.k = k.data();
        op.v = v.data();
        op.k_row_bytes = op.v_row_bytes = bytes;
        op.page_size = page_size;
        op.block_tables = tables.data();
        op.max_pages = max_pages;
        op.n_tokens = n_tokens;
        op.rows = rows.data();
        op.positions = positions.data();
        op.q = q.data();
        op.q_token_stride = n_head * head_dim;
        op.q_head_stride = head_dim;
        op.out = out.data();
    }
};

// One value, read without vectors.
double value(KvType type, const char * row, int i) {
    const auto half = [](const char * from) {
        const auto bits = read<uint16_t>(from);
        const int exponent = bits >> 10 & 31;
        const double size =
            exponent == 0 ? std::ldexp(bits & 1023, -24) : std::ldexp(1024 + (bits & 1023), exponent - 25);
        return bits & 0x8000 ? -size : size;
    };
    switch (type) {
        case KvType::f16:
            return half(row + 2 * i);
        case KvType::bf16: {
            const uint32_t bits = uint32_t(read<uint16_t>(row + 2 * i)) << 16;
            return read<float>(&bits);
        }
        case KvType::q8_0:
            return half(row + i / 32 * 34) * read<int8_t>(row + i / 32 * 34 + 2 + i % 32);
        default: {
            const int byte = read<uint8_t>(row + i / 32 * 18 + 2 + i % 16);
            return half(row + i / 32 * 18) * ((i % 32 < 16 ? byte & 15 : byte >> 4) - 8);
        }
    }
}

// The largest difference to the sums, relative to the largest value.
double error(const Step & step) {
    double worst = 0;
    double largest = 0;
    for (int32_t token = 0; token < n_tokens; ++token) {
        for (int32_t head = 0; head < n_head; ++head) {
            const size_t at = size_t(token * n_head + head) * head_dim;
            const int first = head / (n_head / n_head_kv) * head_dim;
            std::vector<double> sums(head_dim, 0.0);
            double weights = 0;
            for (int32_t t = 0; t <= step.positions[size_t(token)]; ++t) {
                const int32_t page = step.tables[size_t(step.rows[size_t(token)] * max_pages + t / page_size)];
                const size_t cell = size_t(page * page_size + t % page_size) * step.op.k_row_bytes;
                double score = 0;
                for (int i = 0; i < head_dim; ++i) {
                    score += double(step.q[at + size_t(i)]) * value(step.type, &step.k[cell], first + i);
                }
                const double weight = std::exp(score * double(step.op.scale));
                weights += weight;
                for (int i = 0; i < head_dim; ++i) {
                    sums[size_t(i)] += weight * value(step.type, &step.v[cell], first + i);
                }
            }
            for (int i = 0; i < head_dim; ++i) {
                worst = std::max(worst, std::fabs(sums[size_t(i)] / weights - double(step.out[at + size_t(i)])));
                largest = std::max(largest, std::fabs(sums[size_t(i)] / weights));
            }
        }
    }
    return worst / largest;
}

// Runs the step again and again by threads that only meet between two runs, as those of a graph do.
void run_many(Step & step, int nth, int n_runs) {
    Workspace workspace({nth, n_tokens, n_head, head_dim, head_dim});
    std::vector<float> first;
    std::atomic<int> arrived{0};
    const auto meet = [&](int round) {
        arrived.fetch_add(1);
        while (arrived.load() < nth * round) {
            std::this_thread::yield();
        }
    };
    const auto work = [&](int ith) {
        Random random(uint64_t(100 + ith));
        for (int i = 0; i < n_runs; ++i) {
            for (int wait = random.below(2000); wait > 0; --wait) {
                std::atomic_signal_fence(std::memory_order_seq_cst);
            }
            run(step.op, workspace, ith, nth);
            meet(2 * i + 1);
            if (ith == 0) {
                if (i == 0) {
                    first = step.out;
                    CHECK(error(step) < 1e-5);
                }
                CHECK(std::memcmp(first.data(), step.out.data(), first.size() * sizeof(float)) == 0);
                step.out.assign(step.out.size(), NAN);
            }
            meet(2 * i + 2);
        }
    };
    std::vector<std::thread> threads;
    for (int ith = 0; ith < nth; ++ith) {
        threads.emplace_back(work, ith);
    }
    for (std::thread & thread : threads) {
        thread.join();
    }
}

}  // namespace
}  // namespace orin::attention

int main(int argc, char ** argv) {
    using namespace orin::attention;
    const int n_runs = int(orin::operations(argc, argv, 20'000) / 1'000);
    orin::Random random(17);
    for (const KvType type : {KvType::f16, KvType::bf16, KvType::q8_0, KvType::q4_0}) {
        for (const int32_t length : {0, 50, 700}) {
            Step step(type, length, random);
            for (const int nth : {1, 2, 3, 4}) {
                run_many(step, nth, n_runs);
            }
        }
    }
}
