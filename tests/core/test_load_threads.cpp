// Worker threads that read ahead of one consumer, who is slow, stops, or finds that they failed, all at random: what it
// takes is right and in order, and nobody is left behind. Over a pipeline alone, and over a file that may shrink.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "gguf/error.h"
#include "loader/data_file.h"
#include "loader/pipeline.h"
#include "loader/read_plan.h"
#include "loader/staging.h"

namespace orin {
namespace {

constexpr std::chrono::milliseconds a_moment{2};

void dawdle(Random & random) {
    if (random.one_in(4)) {
        std::this_thread::sleep_for(std::chrono::microseconds(random.below(300)));
    }
}

// Slots are plain memory: the thread sanitizer sees whoever touches one that is somebody else's.
void use_pipeline(Random & random) {
    const auto n_items = static_cast<size_t>(random.below(60));
    const auto n_slots = static_cast<size_t>(1 + random.below(6));
    const auto n_threads = static_cast<size_t>(1 + random.below(5));
    const size_t fails_at = random.one_in(3) ? static_cast<size_t>(random.below(60)) : n_items;
    const size_t stops_at = random.one_in(3) ? static_cast<size_t>(random.below(60)) : n_items;
    const auto most_held = static_cast<size_t>(random.below(static_cast<int32_t>(n_slots)));
    const uint64_t seed = static_cast<uint64_t>(random.below(1 << 30));
    std::vector<size_t> slots(n_slots, 0);
    std::atomic<int> n_working{0};
    std::atomic<size_t> n_worked{0};
    size_t n_taken = 0;
    bool has_failed = false;
    {
        Pipeline pipeline(n_items, n_slots, n_threads, [&](size_t item, size_t slot) {
            n_working++;
            Random own(seed + item);
            dawdle(own);
            CHECK(slot == item % n_slots);
            slots[slot] = item + 1;
            n_worked++;
            n_working--;
            if (item == fails_at) {
                throw std::runtime_error("item " + std::to_string(item));
            }
        });
        try {
            while (!pipeline.is_at_end() && n_taken != stops_at) {
                if (const auto item = pipeline.take(a_moment)) {
                    CHECK(*item == n_taken);
                    CHECK(slots[*item % n_slots] == *item + 1);
                    n_taken++;
                    dawdle(random);
                    CHECK(slots[*item % n_slots] == *item + 1);  // it is still the consumer's
                }
                while (pipeline.n_held() > most_held) {
                    pipeline.release();
                }
            }
        } catch (const std::runtime_error & error) {
            has_failed = true;
            CHECK(error.what() == "item " + std::to_string(fails_at));
        }
        CHECK(n_worked <= n_taken + n_slots + n_threads);  // nobody runs further ahead than there are slots
    }
    CHECK(n_working == 0);
    CHECK(has_failed || n_taken == std::min(n_items, stops_at));
    CHECK(!has_failed || fails_at < n_items);
}

struct TemporaryFile {
    explicit TemporaryFile(size_t size) : bytes(size) {
        for (size_t i = 0; i < size; i++) {
            bytes[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
        }
        descriptor = mkstemp(path.data());
        CHECK(descriptor >= 0);
        CHECK(write(descriptor, bytes.data(), size) == static_cast<ssize_t>(size));
        CHECK(fsync(descriptor) == 0);
    }
    ~TemporaryFile() {
        close(descriptor);
        unlink(path.c_str());
    }

    std::vector<uint8_t> bytes;
    std::string path = "build/test_load_threads.XXXXXX";  // a file system with direct reads, more often than /tmp
    int descriptor = -1;
};

// A file that somebody cuts at some time: what is taken is right, and an error says where it ends now.
void read_file(Random & random) {
    const auto size = static_cast<size_t>(1 + random.below(300'000));
    const TemporaryFile file(size);
    if (random.one_in(2)) {
        posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_DONTNEED);
    }
    const Caching caching = random.one_in(3) ? Caching::keep : Caching::bypass;
    DataFile data(file.descriptor, size, file.path, caching);
    const std::vector<Piece> pieces = plan_pieces({{0, 0, 0, size, 1}}, 1 + random.below(40'000), 0);
    constexpr size_t n_slots = 5;
    const StagingMemory memory(n_slots, slot_bytes(pieces));
    std::vector<const uint8_t *> lies(n_slots);
    const uint64_t cut_to = random.one_in(2) ? random.below(static_cast<int32_t>(size)) : size;
    const size_t cut_at = random.below(static_cast<int32_t>(pieces.size()));
    Pipeline pipeline(pieces.size(), n_slots, 3, [&](size_t item, size_t slot) {
        lies[slot] = data.read(pieces[item].offset, pieces[item].nbytes, memory.slot(slot));
    });
    try {
        while (!pipeline.is_at_end()) {
            const auto item = pipeline.take(a_moment);
            if (!item) {
                continue;
            }
            if (*item == cut_at) {
                CHECK(ftruncate(file.descriptor, static_cast<off_t>(cut_to)) == 0);
            }
            const Piece & piece = pieces[*item];
            const uint8_t * const at = lies[*item % n_slots];
            CHECK(std::equal(at, at + piece.nbytes, file.bytes.begin() + static_cast<ptrdiff_t>(piece.offset)));
            pipeline.release();
        }
    } catch (const gguf::ModelFileError & error) {
        CHECK(error.path() == file.path);
        CHECK(cut_to < size && error.offset() == cut_to);
    }
}

}  // namespace
}  // namespace orin

int main(int argc, char ** argv) {
    orin::Random random(1);
    const int64_t n = orin::operations(argc, argv, 150'000) / 1000;  // each takes much longer than those of others
    for (int64_t i = 0; i < n; i++) {
        orin::use_pipeline(random);
        orin::read_file(random);
    }
    return 0;
}
