// Greedy draft-tree verification on the CPU.
#include "arguments.hpp"
#include "tree_walk.hpp"

extern "C" std::int32_t kfr_verify_tree_cpu(const kfr_verify_tree_args *args) {
  const std::int32_t fault = kfr::check(args);
  if (fault != KFR_OK) return fault;
  for (std::int64_t row = 0; row < args->batch; ++row) kfr::walk_tree(*args, row);
  return KFR_OK;
}
