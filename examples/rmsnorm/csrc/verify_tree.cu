// Greedy draft-tree verification on the GPU.
#include "arguments.hpp"
#include "launch.cuh"
#include "tree_walk.hpp"

namespace {

constexpr int kThreads = 128;

// One thread a request: a walk is a chain of dependent loads over a few dozen nodes, so there is nothing to split.
//
// The kernel has internal linkage on purpose. nvcc puts a hash of this file's absolute path into its name, which
// is what a rebuild in another folder must not change: it keeps kernforge's reproducibility honest.
__global__ void verify_tree_greedy_kernel(kfr_verify_tree_args args) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row < args.batch) kfr::walk_tree(args, row);
}

}  // namespace

extern "C" std::int32_t kfr_verify_tree(const kfr_verify_tree_args *args, void *stream) {
  const std::int32_t fault = kfr::check(args);
  if (fault != KFR_OK || args->batch == 0) return fault;
  const dim3 grid(static_cast<unsigned>((args->batch + kThreads - 1) / kThreads));
  return kfr::launch(verify_tree_greedy_kernel, grid, dim3(kThreads), stream, *args);
}
