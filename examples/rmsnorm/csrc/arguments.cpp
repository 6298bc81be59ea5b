// Checks of the C ABI's arguments and the words of its faults.
#include "arguments.hpp"

#include <limits>

namespace kfr {
namespace {

// Grid sizes and node numbers are 32-bit.
constexpr std::int64_t kLargestIndex = std::numeric_limits<std::int32_t>::max();

}  // namespace

std::int32_t check(const kfr_rmsnorm_args *args) {
  if (args == nullptr) return KFR_BAD_POINTER;
  if (args->dtype < KFR_FP32 || args->dtype > KFR_BF16) return KFR_BAD_DTYPE;
  if (args->rows < 0 || args->rows > kLargestIndex) return KFR_BAD_SHAPE;
  if (args->hidden < 1 || args->hidden > kLargestIndex) return KFR_BAD_SHAPE;
  if (args->rows == 0) return KFR_OK;
  const bool complete = args->out != nullptr && args->input != nullptr && args->weight != nullptr;
  return complete ? KFR_OK : KFR_BAD_POINTER;
}

std::int32_t check(const kfr_verify_tree_args *args) {
  if (args == nullptr) return KFR_BAD_POINTER;
  if (args->batch < 0 || args->batch > kLargestIndex) return KFR_BAD_SHAPE;
  if (args->nodes < 1 || args->nodes > kLargestIndex) return KFR_BAD_SHAPE;
  if (args->max_path < 0 || args->max_path > kLargestIndex) return KFR_BAD_SHAPE;
  if (args->batch == 0) return KFR_OK;
  const bool writes = args->count != nullptr && args->next_token != nullptr &&
                      (args->path != nullptr || args->max_path == 0);
  const bool reads = args->draft_tokens != nullptr && args->first_child != nullptr &&
                     args->next_sibling != nullptr && args->target_tokens != nullptr;
  return writes && reads ? KFR_OK : KFR_BAD_POINTER;
}

}  // namespace kfr

extern "C" const char *kfr_fault_text(std::int32_t status) {
  switch (status) {
    case KFR_BAD_SHAPE: return "a count is negative, zero or too large";
    case KFR_BAD_DTYPE: return "unknown element type";
    case KFR_BAD_POINTER: return "a required pointer is null or misaligned";
    default: return "unknown fault";
  }
}
