// The RMSNorm kernel, a template that each element type's unit instantiates for itself.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernforge_rmsnorm.h"
#include "launch.cuh"

namespace kfr {

inline constexpr int kWarpSize = 32;
inline constexpr int kLargestBlock = 1024;
inline constexpr int kPackBytes = 16;  // the widest load a thread can make on every GPU since sm_50

// `kCount` neighbouring elements, moved in one load or store.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T items[kCount];
};

// The sum over all threads of a block, handed to each of them. blockDim.x is a multiple of the warp size.
__device__ inline float block_sum(float value) {
  __shared__ float partial[kLargestBlock / kWarpSize];
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFu, value, lanes);
  }
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  if (lane == 0) partial[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  float sum = lane < warps ? partial[lane] : 0.0f;
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lanes);
  }
  return sum;
}

// One block a row. The first pass adds, stores the sum and squares it; the second reads back what the same
// thread wrote (still in L1 or L2) and scales it. `Format` converts: see the rmsnorm_*.cu units.
template <typename Format, bool kResidual, int kCount>
__global__ void __launch_bounds__(kLargestBlock) rmsnorm_kernel(kfr_rmsnorm_args args) {
  using T = typename Format::Element;
  using P = Pack<T, kCount>;
  const std::int64_t packs = args.hidden / kCount;
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.x) * packs;
  const P *const input = static_cast<const P *>(args.input) + start;
  const P *const weight = static_cast<const P *>(args.weight);
  P *const residual = kResidual ? static_cast<P *>(args.residual) + start : nullptr;
  P *const out = static_cast<P *>(args.out) + start;

  float squares = 0.0f;
  for (std::int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    P x = input[i];
    if constexpr (kResidual) {
      const P added = residual[i];
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        x.items[k] = Format::narrow(Format::widen(x.items[k]) + Format::widen(added.items[k]));
      }
      residual[i] = x;
    }
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const float wide = Format::widen(x.items[k]);
      squares += wide * wide;
    }
  }
  const float mean = block_sum(squares) / static_cast<float>(args.hidden);
  const float scale = rsqrtf(mean + args.epsilon);

  for (std::int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    const P x = kResidual ? residual[i] : input[i];
    const P w = weight[i];
    P y;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      y.items[k] = Format::narrow(Format::widen(x.items[k]) * scale * Format::widen(w.items[k]));
    }
    out[i] = y;
  }
}

template <typename Format, int kCount>
std::int32_t launch_rmsnorm_packed(const kfr_rmsnorm_args &args, void *stream) {
  const std::int64_t packs = args.hidden / kCount;
  const std::int64_t warps = (packs + kWarpSize - 1) / kWarpSize;
  const std::int64_t threads = warps * kWarpSize < kLargestBlock ? warps * kWarpSize : kLargestBlock;
  const dim3 grid(static_cast<unsigned>(args.rows));
  const dim3 block(static_cast<unsigned>(threads));
  return args.residual != nullptr
             ? launch(rmsnorm_kernel<Format, true, kCount>, grid, block, stream, args)
             : launch(rmsnorm_kernel<Format, false, kCount>, grid, block, stream, args);
}

// True where every row of every array starts on a whole pack.
inline bool is_packable(const kfr_rmsnorm_args &args, std::size_t element_bytes) {
  const void *const arrays[] = {args.out, args.residual, args.input, args.weight};
  for (const void *array : arrays) {
    if (reinterpret_cast<std::uintptr_t>(array) % kPackBytes != 0) return false;
  }
  return static_cast<std::size_t>(args.hidden) * element_bytes % kPackBytes == 0;
}

// Takes the wide path where shapes and addresses allow it, else goes element by element.
template <typename Format>
std::int32_t launch_rmsnorm(const kfr_rmsnorm_args &args, void *stream) {
  constexpr std::size_t kBytes = sizeof(typename Format::Element);
  return is_packable(args, kBytes)
             ? launch_rmsnorm_packed<Format, kPackBytes / static_cast<int>(kBytes)>(args, stream)
             : launch_rmsnorm_packed<Format, 1>(args, stream);
}

}  // namespace kfr
