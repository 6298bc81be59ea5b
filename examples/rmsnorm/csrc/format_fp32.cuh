// fp32 elements.
#pragma once

#include "format.cuh"

namespace kfr {

template <>
struct Format<KFR_FP32> {
  using Element = float;
  static __device__ float widen(Element value) { return value; }
  static __device__ Element narrow(float value) { return value; }
};

}  // namespace kfr
