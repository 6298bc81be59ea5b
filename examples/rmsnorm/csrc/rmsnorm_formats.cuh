// The element types as the kernels see them: how one is read into fp32 and rounded back.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernforge_rmsnorm.h"

namespace kfr {

// `kDtype` is the type's number in the C ABI. narrow() rounds to nearest, ties to even.
template <std::int32_t kDtype>
struct Format;

template <>
struct Format<KFR_FP32> {
  using Element = float;
  static __device__ float widen(Element value) { return value; }
  static __device__ Element narrow(float value) { return value; }
};

template <>
struct Format<KFR_FP16> {
  using Element = __half;
  static __device__ float widen(Element value) { return __half2float(value); }
  static __device__ Element narrow(float value) { return __float2half_rn(value); }
};

template <>
struct Format<KFR_BF16> {
  using Element = __nv_bfloat16;
  static __device__ float widen(Element value) { return __bfloat162float(value); }
  static __device__ Element narrow(float value) { return __float2bfloat16_rn(value); }
};

}  // namespace kfr
