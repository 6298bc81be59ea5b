// RMSNorm for fp32.
#include "rmsnorm_kernel.cuh"
#include "rmsnorm_units.hpp"

namespace kfr {

struct Fp32Format {
  using Element = float;
  static __device__ float widen(Element value) { return value; }
  static __device__ Element narrow(float value) { return value; }
};

std::int32_t rmsnorm_fp32(const kfr_rmsnorm_args &args, void *stream) {
  return launch_rmsnorm<Fp32Format>(args, stream);
}

}  // namespace kfr
