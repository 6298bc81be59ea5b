// RMSNorm for fp16.
#include <cuda_fp16.h>

#include "rmsnorm_kernel.cuh"
#include "rmsnorm_units.hpp"

namespace kfr {

struct Fp16Format {
  using Element = __half;
  static __device__ float widen(Element value) { return __half2float(value); }
  static __device__ Element narrow(float value) { return __float2half_rn(value); }
};

std::int32_t rmsnorm_fp16(const kfr_rmsnorm_args &args, void *stream) {
  return launch_rmsnorm<Fp16Format>(args, stream);
}

}  // namespace kfr
