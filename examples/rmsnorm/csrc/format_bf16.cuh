// bf16 elements.
#pragma once

#include <cuda_bf16.h>

#include "format.cuh"

namespace kfr {

template <>
struct Format<KFR_BF16> {
  using Element = __nv_bfloat16;
  static __device__ float widen(Element value) { return __bfloat162float(value); }
  static __device__ Element narrow(float value) { return __float2bfloat16_rn(value); }
};

}  // namespace kfr
