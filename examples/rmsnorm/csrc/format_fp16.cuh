// fp16 elements.
#pragma once

#include <cuda_fp16.h>

#include "format.cuh"

namespace kfr {

template <>
struct Format<KFR_FP16> {
  using Element = __half;
  static __device__ float widen(Element value) { return __half2float(value); }
  static __device__ Element narrow(float value) { return __float2half_rn(value); }
};

}  // namespace kfr
