#include "kv_rows.h"

#include <algorithm>
#include <stdexcept>

namespace orin {
namespace {

// Calls visit(cell, n) for as many neighbouring cells at a time as pages lie in a row. cell_of(position): its cell
template <typename CellOf, typename Visit>
void for_runs(int32_t first, int32_t end, const CellOf & cell_of, const Visit & visit) {
    for (int32_t position = first; position < end;) {
        const int64_t cell = cell_of(position);
        int32_t n = 1;
        while (position + n < end && cell_of(position + n) == cell + n) {
            n++;
        }
        visit(cell, n);
        position += n;
    }
}

// A sequence of its own while rows are written.
class Visitor {
   public:
    explicit Visitor(PagedKv & pages) : uncounted_(pages), pages_(pages), sequence_(pages.open()) {}
    ~Visitor() { pages_.close(sequence_); }
    Visitor(const Visitor &) = delete;
    Visitor & operator=(const Visitor &) = delete;

    SequenceId sequence() const { return sequence_; }
    // How many of the first n tokens whole cached pages hold.
    int32_t adopt(std::vector<int32_t> tokens, int32_t n) {
        tokens.resize(static_cast<size_t>(n));
        tokens.push_back(-1);  // the last one is never taken from the cache
        return pages_.adopt_prefix(sequence_, tokens.data(), n + 1);
    }

   private:
    const PagedKv::Uncounted uncounted_;
    PagedKv & pages_;
    const SequenceId sequence_;
};

}  // namespace

std::string read_kv(KvPool & pool, const std::vector<int32_t> & tokens, int32_t first, int32_t n) {
    if (first < 0) {
        throw std::invalid_argument("first is " + std::to_string(first) + ": expected 0 or more");
    }
    const PagedKv & pages = pool.pages();
    const int64_t end = std::min<int64_t>(int64_t{first} + n, static_cast<int64_t>(tokens.size()));
    const std::vector<PageId> found = pages.prefix_pages(tokens.data(), static_cast<int32_t>(end));
    const auto n_cached = static_cast<int32_t>(found.size()) * pages.page_size();
    const size_t row_bytes = pool.storage()->bytes_per_cell();
    std::string rows(row_bytes * static_cast<size_t>(std::max(n_cached - first, 0)), '\0');
    char * next = rows.data();
    const auto cell_of = [&](int32_t position) {
        const int64_t page = found[static_cast<size_t>(position / pages.page_size())];
        return page * pages.page_size() + position % pages.page_size();
    };
    pool.wait();
    for_runs(first, n_cached, cell_of, [&](int64_t cell, int32_t n_cells) {
        pool.storage()->read_cells(cell, n_cells, next);
        next += static_cast<size_t>(n_cells) * row_bytes;
    });
    return rows;
}

int32_t write_kv(KvPool & pool, const std::vector<int32_t> & tokens, int32_t first, const std::string & rows) {
    PagedKv & pages = pool.pages();
    const size_t row_bytes = pool.storage()->bytes_per_cell();
    const auto n = static_cast<int32_t>(tokens.size()) - first;
    if (first < 0 || n < 0 || rows.size() != row_bytes * static_cast<size_t>(n)) {
        throw std::invalid_argument(std::to_string(rows.size()) + " bytes for " + std::to_string(n) + " tokens of " +
                                    std::to_string(row_bytes) + " bytes each");
    }
    Visitor visitor(pages);
    const int32_t n_cached = visitor.adopt(tokens, first);
    if (n_cached < first || !pages.append(visitor.sequence(), tokens.data() + first, n)) {
        return n_cached;
    }
    pool.grow();
    pool.wait();
    const char * next = rows.data();
    const auto cell_of = [&](int32_t position) { return pages.cell(visitor.sequence(), position); };
    for_runs(first, first + n, cell_of, [&](int64_t cell, int32_t n_cells) {
        pool.storage()->write_cells(cell, n_cells, next);
        next += static_cast<size_t>(n_cells) * row_bytes;
    });
    pages.commit(visitor.sequence());
    return (first + n) / pages.page_size() * pages.page_size();
}

}  // namespace orin
