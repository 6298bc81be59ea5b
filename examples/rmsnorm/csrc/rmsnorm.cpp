// Sends an RMSNorm call to the unit of its element type.
#include "arguments.hpp"
#include "rmsnorm_units.hpp"

extern "C" std::int32_t kfr_rmsnorm(const kfr_rmsnorm_args *args, void *stream) {
  const std::int32_t fault = kfr::check(args);
  if (fault != KFR_OK || args->rows == 0) return fault;
  switch (args->dtype) {
    case KFR_FP32: return kfr::rmsnorm_fp32(*args, stream);
    case KFR_FP16: return kfr::rmsnorm_fp16(*args, stream);
    default: return kfr::rmsnorm_bf16(*args, stream);
  }
}
