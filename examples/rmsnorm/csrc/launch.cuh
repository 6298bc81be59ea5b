// How kernels are started and how their failure is told.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kfr {

// Starts a kernel and answers CUDA's own number for what went wrong (209 where the library holds no code for
// this GPU), never that of an earlier call. The error is then taken off the runtime's "last error", where
// another library in the process would find it and blame itself.
template <typename... Parameters, typename... Arguments>
std::int32_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, void *stream,
                    Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = static_cast<cudaStream_t>(stream);
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
  return status;
}

}  // namespace kfr
