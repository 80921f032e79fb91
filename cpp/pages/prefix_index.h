// Finds the full page that holds given tokens after a given prefix.
//
// An indexed page is a node of a tree: its parent is the page before it. Every node gets a number that no other ever
// has. A page's key is a hash of its parent's number and its own tokens, so keys are chained; a hit asks further that
// the parent is that very node and that all tokens are equal. Equal keys therefore cost time and never give a wrong
// page, and once a node is gone nothing can be found below it, not even when its page or its tokens come back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "paged_kv_config.h"

namespace orin {

struct PrefixNode {
    uint64_t id = 0;  // 0: none
    PageId page = scratch_page;
};

class PrefixIndex {
   public:
    explicit PrefixIndex(const PagedKvConfig & config);

    static constexpr PrefixNode root{1, scratch_page};  // the prefix without tokens

    int32_t page_size() const { return page_size_; }

    // What the cells of a page hold, or are about to. May be written unless the page is indexed. [page_size]
    int32_t * tokens(PageId page) { return tokens_.data() + first_token(page); }
    const int32_t * tokens(PageId page) const { return tokens_.data() + first_token(page); }

    // Whether a node is in the index; one below it may be found then, if all above it are there, too.
    bool alive(PrefixNode node) const { return node.id == root.id || (node.id != 0 && at(node.page).id == node.id); }
    PrefixNode node(PageId page) const { return {at(page).id, page}; }  // id 0 when not indexed
    PrefixNode parent(PageId page) const { return at(page).parent; }    // PRECOND: indexed

    // The node below `parent` with these tokens, or none. tokens: [page_size]
    PrefixNode find(PrefixNode parent, const int32_t * tokens) const;
    // PRECOND: the page is not indexed, `parent` is alive and has no node with the page's tokens.
    PrefixNode insert(PageId page, PrefixNode parent);
    // PRECOND: indexed
    void erase(PageId page);

   private:
    struct Entry {
        uint64_t id = 0;
        uint64_t key = 0;
        PrefixNode parent;
        PageId next = scratch_page;  // in the bucket; the scratch page ends it
        PageId previous = scratch_page;
    };

    Entry & at(PageId page) { return entries_[static_cast<size_t>(page)]; }
    const Entry & at(PageId page) const { return entries_[static_cast<size_t>(page)]; }
    size_t first_token(PageId page) const { return static_cast<size_t>(page) * static_cast<size_t>(page_size_); }
    uint64_t key(PrefixNode parent, const int32_t * tokens) const;
    PageId & bucket(uint64_t key) { return buckets_[key & (buckets_.size() - 1)]; }
    const PageId & bucket(uint64_t key) const { return buckets_[key & (buckets_.size() - 1)]; }

    int32_t page_size_;
    uint64_t seed_;
    uint64_t multiplier_;
    uint64_t key_mask_;
    uint64_t last_id_ = root.id;
    std::vector<int32_t> tokens_;  // [n_pages, page_size]
    std::vector<Entry> entries_;   // [n_pages]
    std::vector<PageId> buckets_;  // first page of each; a power of two, n_pages or more
};

}  // namespace orin
