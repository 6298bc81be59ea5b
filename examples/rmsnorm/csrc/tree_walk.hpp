// The walk through one drafted tree. One text for CPU and GPU: it only compares and follows links, so sharing it
// hides no rounding; the independent check is the Python reference in the tests.
#pragma once

#include <cstdint>

#include "kernforge_rmsnorm.h"

#if defined(__CUDACC__)
#define KFR_BOTH_SIDES __host__ __device__
#else
#define KFR_BOTH_SIDES
#endif

namespace kfr {

inline constexpr std::int32_t kNone = -1;
inline constexpr std::int32_t kUnsound = -2;

// One request's rows of the tables, and how many nodes may still be looked at. A walk through a real tree looks at
// each node but the root at most once, so one that wants more looks goes round in a circle.
struct TreeWalk {
  const std::int32_t *draft;
  const std::int32_t *child;
  const std::int32_t *sibling;
  const std::int32_t *target;
  std::int64_t nodes;
  std::int64_t looks_left;

  // The first child of `node` that the target agrees with, kNone, or kUnsound.
  KFR_BOTH_SIDES std::int32_t accepted_child(std::int32_t node) {
    std::int32_t candidate = child[node];
    while (candidate != kNone) {
      if (candidate <= 0 || candidate >= nodes || looks_left-- == 0) return kUnsound;
      if (draft[candidate] == target[node]) return candidate;
      candidate = sibling[candidate];
    }
    return kNone;
  }
};

// Walks the tree of request `row` and writes its path, count and next token. It walks on after max_path nodes,
// recording no more: links are judged by the whole walk, not by how much of it the caller has room for.
KFR_BOTH_SIDES inline void walk_tree(const kfr_verify_tree_args &args, std::int64_t row) {
  const std::int64_t start = row * args.nodes;
  TreeWalk walk{args.draft_tokens + start,  args.first_child + start, args.next_sibling + start,
                args.target_tokens + start, args.nodes,               args.nodes - 1};
  std::int32_t *const path = args.path + row * args.max_path;

  std::int32_t count = 0;
  std::int32_t last = 0;
  std::int32_t node = walk.accepted_child(0);
  while (node >= 0) {
    if (count < args.max_path) {
      path[count++] = node;
      last = node;
    }
    node = walk.accepted_child(node);
  }
  const bool sound = node == kNone;
  for (std::int64_t i = sound ? count : 0; i < args.max_path; ++i) path[i] = kNone;
  args.count[row] = sound ? count : -1;
  args.next_token[row] = sound ? walk.target[last] : -1;
}

}  // namespace kfr
