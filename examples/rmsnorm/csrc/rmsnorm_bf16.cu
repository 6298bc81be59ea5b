// RMSNorm for bf16.
#include <cuda_bf16.h>

#include "rmsnorm_kernel.cuh"
#include "rmsnorm_units.hpp"

namespace kfr {

struct Bf16Format {
  using Element = __nv_bfloat16;
  static __device__ float widen(Element value) { return __bfloat162float(value); }
  static __device__ Element narrow(float value) { return __float2bfloat16_rn(value); }
};

std::int32_t rmsnorm_bf16(const kfr_rmsnorm_args &args, void *stream) {
  return launch_rmsnorm<Bf16Format>(args, stream);
}

}  // namespace kfr
