// The RMSNorm kernels, templates that each unit instantiates for its own kind: see rmsnorm_units.hpp.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "format.cuh"
#include "kernforge_rmsnorm.h"
#include "launch.cuh"
#include "rmsnorm_units.hpp"

namespace kfr {

inline constexpr int kWarpSize = 32;
inline constexpr int kLargestBlock = 1024;
inline constexpr int kRowsPerBlock = 4;  // where a warp takes a row
inline constexpr int kMostHeld = 10;     // packs a thread: 40 registers at the widest

// `kBytes` of neighbouring elements, moved in one load or store.
template <typename F, int kBytes>
struct alignas(kBytes) Pack {
  static constexpr int kCount = kBytes / static_cast<int>(sizeof(typename F::Element));
  typename F::Element items[kCount];
};

// The sum over all threads of a warp, handed to each of them.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFu, value, lanes);
  }
  return value;
}

// The sum over all threads of a block, handed to each of them. blockDim.x is a multiple of the warp size.
__device__ inline float block_sum(float value) {
  __shared__ float partial[kLargestBlock / kWarpSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  value = warp_sum(value);
  if (lane == 0) partial[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  return warp_sum(lane < warps ? partial[lane] : 0.0f);
}

// One row of one call, seen as packs.
template <typename F, int kBytes, bool kResidual>
struct Row {
  using P = Pack<F, kBytes>;
  std::int64_t packs;
  const P *input;
  const P *weight;
  P *residual;
  P *out;

  __device__ Row(const kfr_rmsnorm_args &args, std::int64_t number)
      : packs(args.hidden / P::kCount),
        input(static_cast<const P *>(args.input) + number * packs),
        weight(static_cast<const P *>(args.weight)),
        residual(kResidual ? static_cast<P *>(args.residual) + number * packs : nullptr),
        out(static_cast<P *>(args.out) + number * packs) {}

  // x of one pack: the input, or its rounded sum with the residual, which is written back.
  __device__ P take(std::int64_t at) const {
    P x = input[at];
    if constexpr (kResidual) {
      const P added = residual[at];
#pragma unroll
      for (int k = 0; k < P::kCount; ++k) {
        x.items[k] = F::narrow(F::widen(x.items[k]) + F::widen(added.items[k]));
      }
      residual[at] = x;
    }
    return x;
  }

  // x of a pack that this thread has taken before, read again.
  __device__ P again(std::int64_t at) const { return kResidual ? residual[at] : input[at]; }

  __device__ void give(std::int64_t at, const P &x, float scale) const {
    const P w = weight[at];
    P y;
#pragma unroll
    for (int k = 0; k < P::kCount; ++k) {
      y.items[k] = F::narrow(F::widen(x.items[k]) * scale * F::widen(w.items[k]));
    }
    out[at] = y;
  }
};

template <typename F, int kBytes>
__device__ float squares_of(const Pack<F, kBytes> &x) {
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < Pack<F, kBytes>::kCount; ++k) {
    const float wide = F::widen(x.items[k]);
    sum += wide * wide;
  }
  return sum;
}

__device__ inline float scale_of(const kfr_rmsnorm_args &args, float squares) {
  return rsqrtf(squares / static_cast<float>(args.hidden) + args.epsilon);
}

// A row that lies in the registers of its threads, `kHeld` packs each, so that memory is read once.
template <typename F, int kBytes, bool kResidual, int kHeld>
struct HeldRow {
  const Row<F, kBytes, kResidual> row;
  const int first;  // the thread's number among those of the row
  const int step;   // how many those are
  Pack<F, kBytes> held[kHeld];

  __device__ float take() {
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const std::int64_t at = first + k * step;
      if (at >= row.packs) continue;
      held[k] = row.take(at);
      squares += squares_of(held[k]);
    }
    return squares;
  }

  __device__ void give(float scale) const {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const std::int64_t at = first + k * step;
      if (at < row.packs) row.give(at, held[k], scale);
    }
  }
};

// Short rows, as of one attention head: a warp a row, several rows a block.
template <std::int32_t kDtype, int kBytes, bool kResidual, int kHeld>
__global__ void __launch_bounds__(kRowsPerBlock *kWarpSize) short_rmsnorm_kernel(kfr_rmsnorm_args args) {
  using Held = HeldRow<Format<kDtype>, kBytes, kResidual, kHeld>;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + warp;
  if (number >= args.rows) return;
  Held mine{{args, number}, static_cast<int>(threadIdx.x) % kWarpSize, kWarpSize, {}};
  mine.give(scale_of(args, warp_sum(mine.take())));
}

// Rows as of a hidden state: a block a row.
template <std::int32_t kDtype, int kBytes, bool kResidual, int kHeld>
__global__ void __launch_bounds__(kLargestBlock) rmsnorm_kernel(kfr_rmsnorm_args args) {
  using Held = HeldRow<Format<kDtype>, kBytes, kResidual, kHeld>;
  Held mine{{args, blockIdx.x}, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), {}};
  mine.give(scale_of(args, block_sum(mine.take())));
}

// Rows of any length: the second pass reads back what the same thread wrote (still in L1 or L2).
template <std::int32_t kDtype, int kBytes, bool kResidual>
__global__ void __launch_bounds__(kLargestBlock) long_rmsnorm_kernel(kfr_rmsnorm_args args) {
  const Row<Format<kDtype>, kBytes, kResidual> row(args, blockIdx.x);
  float squares = 0.0f;
  for (std::int64_t at = threadIdx.x; at < row.packs; at += blockDim.x) {
    squares += squares_of(row.take(at));
  }
  const float scale = scale_of(args, block_sum(squares));
  for (std::int64_t at = threadIdx.x; at < row.packs; at += blockDim.x) {
    row.give(at, row.again(at), scale);
  }
}

using Kernel = void (*)(kfr_rmsnorm_args);

// The kernel that holds exactly so many packs a thread: 1 to kMostHeld.
template <std::int32_t kDtype, int kBytes, bool kResidual, int kHeld = kMostHeld>
Kernel kernel_holding(std::int64_t held, bool is_short) {
  if constexpr (kHeld > 1) {
    if (held < kHeld) return kernel_holding<kDtype, kBytes, kResidual, kHeld - 1>(held, is_short);
  }
  return is_short ? short_rmsnorm_kernel<kDtype, kBytes, kResidual, kHeld>
                  : rmsnorm_kernel<kDtype, kBytes, kResidual, kHeld>;
}

inline std::int64_t rounded_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

template <std::int32_t kDtype, int kPackBytes, bool kResidual>
std::int32_t launch_rmsnorm(const kfr_rmsnorm_args &args, void *stream) {
  const std::int64_t packs = args.hidden / Pack<Format<kDtype>, kPackBytes>::kCount;
  const bool is_short = packs <= kMostHeld * kWarpSize;
  std::int64_t threads = rounded_up(packs, kWarpSize);
  if (is_short) threads = kWarpSize;
  if (threads > kLargestBlock) threads = kLargestBlock;
  const std::int64_t held = rounded_up(packs, threads) / threads;
  const std::int64_t rows_at_once = is_short ? kRowsPerBlock : 1;
  const dim3 grid(static_cast<unsigned>(rounded_up(args.rows, rows_at_once) / rows_at_once));
  const dim3 block(static_cast<unsigned>(threads * rows_at_once));
  const Kernel kernel = held <= kMostHeld ? kernel_holding<kDtype, kPackBytes, kResidual>(held, is_short)
                                          : long_rmsnorm_kernel<kDtype, kPackBytes, kResidual>;
  return launch(kernel, grid, block, stream, args);
}

}  // namespace kfr
